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
  const text = replaceNamed(sql.replace(/\{skipLocked\}/g, ""), (mark, name) => {
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

/** Prepares one statement. */
export function prepareSqlite(db: Database.Database, statement: Statement): Run {
  const params = Object.keys(statement.params);
  switch (statement.kind) {
    case "text":
      return () => [];
    case "select": {
      const { text, order } = bind(statement.select, params);
      const prepared = db.prepare<Value[], Row>(text);
      const fill = filler(order);
      return (rows, now) => {
        if (rows.length === 1) return prepared.all(...fill(rows[0] as Value[], now));
        const out: Row[] = [];
        for (const row of rows) for (const found of prepared.all(...fill(row, now))) out.push(found);
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
      // By number alone there is nothing to find out first, and nobody asks what was written.
      if (statement.where === "message.seq = :seq") {
        const { text, order } = bind(`${statement.head} WHERE message.seq = :seq`, params);
        const prepared = db.prepare<Value[]>(text);
        const fill = filler(order);
        return (rows, now) => {
          for (const row of rows) prepared.run(...fill(row, now));
          return [];
        };
      }
      const read = bind(`SELECT ${statement.returning} FROM ${statement.table ?? "message"} WHERE ${statement.where}`, params);
      const write = bind(`${statement.head} WHERE ${statement.table === undefined ? "message.seq = :seq" : statement.where}`, params);
      const reader = db.prepare<Value[], Row>(read.text);
      const writer = db.prepare<Value[]>(write.text);
      const fillRead = filler(read.order);
      const fillWrite = filler(write.order);
      return (rows, now) => {
        const out: Row[] = [];
        for (const row of rows) {
          const found = reader.get(...fillRead(row, now));
          if (found === undefined) continue;
          writer.run(...fillWrite(row, now));
          out.push(found);
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
  const reader = db.prepare<Value[], Row>(pick.text);
  const columns = reader.columns().map((column) => column.name);
  const sources: { column: string; param: number }[] = [];
  const set = statement.set.replace(/\bdue\.(\w+)/g, (_, column: string) => {
    sources.push({ column, param: columns.includes(column) ? -1 : params.indexOf(column) });
    return "?";
  });
  const bound = bind(set, params);
  if (bound.order.some((at) => at !== -1)) throw new Error(`A take sets by due.x, not by :x: ${statement.set}`);
  // Only `$now` and `due.x` occur in a set; their marks keep the order of the text.
  const order: (number | "now")[] = [];
  let next = 0;
  replaceNamed(statement.set.replace(/\bdue\.\w+/g, ":due"), (mark) => {
    order.push(mark === "$" ? "now" : next++);
    return "?";
  });
  const writer = db.prepare<Value[]>(`UPDATE message SET ${bound.text} WHERE seq = ?`);
  const fill = filler(pick.order);
  const args = new Array<Value>(order.length + 1);
  return (rows, now) => {
    const out: Row[] = [];
    for (const row of rows) {
      for (const found of reader.all(...fill(row, now))) {
        for (let i = 0; i < order.length; i++) {
          const at = order[i] as number | "now";
          if (at === "now") args[i] = now;
          else {
            const source = sources[at] as { column: string; param: number };
            args[i] = (source.param < 0 ? found[source.column] : row[source.param]) as Value;
          }
        }
        args[order.length] = found.seq as Value;
        writer.run(...args);
        out.push(found);
      }
    }
    return out;
  };
}
