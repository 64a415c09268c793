/**
 * Hot statements on SQLite: prepared once, run once per parameter row. `RETURNING` costs SQLite more than the read it saves, so a
 * write that answers columns reads them first and then writes.
 */
import type Database from "better-sqlite3";
import type { Row, Statement, Value } from "./db.ts";
import { replaceNamed } from "./named.ts";

type Run = (rows: readonly (readonly Value[])[], now: number) => Row[];

interface Bound {
  text: string;
  /** For each `?` the column of the parameter row, or -1 for the instant. */
  order: number[];
}

function bind(sql: string, params: readonly string[]): Bound {
  const order: number[] = [];
  const text = replaceNamed(sql.replace("{skipLocked}", "").replace("{lock}", "").replace("{greatest}", "max"), (mark, name) => {
    order.push(mark === "$" ? -1 : params.indexOf(name));
    return "?";
  });
  // SQLite plans a statement anew each time a bare parameter of LIMIT is bound; an expression it takes as it comes.
  return { text: text.replace(/\bLIMIT \?/g, "LIMIT ? + 0"), order };
}

function filler(order: readonly number[]): (row: readonly Value[], now: number) => Value[] {
  const args = new Array<Value>(order.length);
  return (row, now) => {
    for (let i = 0; i < order.length; i++) {
      const at = order[i] as number;
      args[i] = at < 0 ? now : (row[at] as Value);
    }
    return args;
  };
}

type Prepared = Database.Statement<Value[], Value[]>;

/** Makes rows of columns: made here they cost half of what the driver's own take. */
function rowMaker(prepared: Prepared): (columns: readonly Value[]) => Row {
  const names = prepared.columns().map((column) => column.name);
  return (columns) => {
    const row: Row = {};
    for (let i = 0; i < names.length; i++) row[names[i] as string] = columns[i] as Value;
    return row;
  };
}

/** Prepares one statement. */
export function prepareSqlite(db: Database.Database, statement: Statement): Run {
  const params = Object.keys(statement.params);
  switch (statement.kind) {
    case "text":
      return () => [];
    case "select": {
      const { text, order } = bind(statement.select, params);
      const prepared = db.prepare<Value[], Value[]>(text).raw();
      const rowOf = rowMaker(prepared);
      const fill = filler(order);
      return (rows, now) => {
        const out: Row[] = [];
        for (const row of rows) for (const found of prepared.all(...fill(row, now))) out.push(rowOf(found));
        return out;
      };
    }
    case "insert": {
      const { text, order } = bind(`INSERT INTO ${statement.into} VALUES (${statement.values}) ${statement.conflict ?? ""}`, params);
      const prepared = db.prepare<Value[]>(text);
      const fill = filler(order);
      const answer = Object.entries(statement.answer ?? {}).map(([column, param]) => [column, params.indexOf(param)] as const);
      return (rows, now) => {
        const out: Row[] = [];
        for (const row of rows) {
          const { changes } = prepared.run(...fill(row, now));
          if (changes > 0 && answer.length > 0) out.push(Object.fromEntries(answer.map(([column, at]) => [column, row[at] as Value])));
        }
        return out;
      };
    }
    case "write": {
      // Where nobody asks what was written there is nothing to find out first.
      if (statement.returning === undefined) {
        const { text, order } = bind(`${statement.head} WHERE ${statement.where}`, params);
        const prepared = db.prepare<Value[]>(text);
        const fill = filler(order);
        return (rows, now) => {
          for (const row of rows) prepared.run(...fill(row, now));
          return [];
        };
      }
      if (statement.after) {
        const { text, order } = bind(`${statement.head} WHERE ${statement.where} RETURNING ${statement.returning}`, params);
        const prepared = db.prepare<Value[], Value[]>(text).raw();
        const rowOf = rowMaker(prepared);
        const fill = filler(order);
        return (rows, now) => rows.flatMap((row) => prepared.all(...fill(row, now)).map(rowOf));
      }
      const read = bind(`SELECT ${statement.returning} FROM ${statement.table ?? "message"} WHERE ${statement.where}`, params);
      const write = bind(`${statement.head} WHERE ${statement.table === undefined ? "message.seq = :seq" : statement.where}`, params);
      const reader = db.prepare<Value[], Value[]>(read.text).raw();
      const rowOf = rowMaker(reader);
      const writer = db.prepare<Value[]>(write.text);
      const fillRead = filler(read.order);
      const fillWrite = filler(write.order);
      return (rows, now) => {
        const out: Row[] = [];
        for (const row of rows) {
          const found = reader.get(...fillRead(row, now));
          if (found === undefined) continue;
          writer.run(...fillWrite(row, now));
          out.push(rowOf(found));
        }
        return out;
      };
    }
    case "take":
      return prepareTake(db, statement, params);
  }
}

function prepareTake(db: Database.Database, statement: Statement & { kind: "take" }, params: readonly string[]): Run {
  const also = statement.also === undefined ? "" : `, ${statement.also}`;
  const pick = bind(statement.pick.replace("{also}", also), params);
  const reader = db.prepare<Value[], Value[]>(pick.text).raw();
  const rowOf = rowMaker(reader);
  const columns = reader.columns().map((column) => column.name);
  const seq = columns.indexOf("seq");
  // What the update takes, in the order of its marks: the instant, a picked column, or else a parameter.
  const sources: { from: "now" | "found" | "row"; at: number }[] = [];
  const set = replaceNamed(statement.set.replace(/\bdue\.(\w+)/g, ":$1"), (mark, name) => {
    if (mark === "$") sources.push({ from: "now", at: 0 });
    else if (columns.includes(name)) sources.push({ from: "found", at: columns.indexOf(name) });
    else sources.push({ from: "row", at: params.indexOf(name) });
    return "?";
  });
  const writer = db.prepare<Value[]>(`UPDATE message SET ${set} WHERE seq = ?`);
  const fill = filler(pick.order);
  const args = new Array<Value>(sources.length + 1);
  return (rows, now) => {
    const out: Row[] = [];
    for (const row of rows) {
      for (const found of reader.all(...fill(row, now))) {
        for (let i = 0; i < sources.length; i++) {
          const { from, at } = sources[i] as (typeof sources)[number];
          args[i] = from === "now" ? now : ((from === "found" ? found : row)[at] as Value);
        }
        args[sources.length] = found[seq] as Value;
        writer.run(...args);
        out.push(rowOf(found));
      }
    }
    return out;
  };
}
