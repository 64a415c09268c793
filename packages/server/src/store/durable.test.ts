import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { scratch } from "@millrace/testkit";
import Database from "better-sqlite3";
import { afterEach, describe, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openSqlite } from "../db/sqlite.ts";
import { putQueue } from "./engines.suite.ts";
import { migrate, migrations } from "./migrate.ts";
import { type OpenStore, openStore, type StoreOptions } from "./open.ts";
import { statements } from "./statements.ts";
import type { SendRow } from "./types.ts";

const row = (body: string): SendRow => ({
  queueNo: 1,
  body: Buffer.from(body),
  attributes: null,
  meta: null,
  groupKey: null,
  dedupId: null,
  delayMs: null,
});
const open: OpenStore[] = [];
async function opened(path: string, more: Partial<StoreOptions> = {}): Promise<OpenStore> {
  const store = await openStore({ url: path, clock: createClock(), ...more });
  open.push(store);
  return store;
}
afterEach(async () => {
  for (const store of open.splice(0)) await store.close();
});

/** A file with queue 1 in it. */
async function file(): Promise<string> {
  const path = join(scratch("durable").path, "store.db");
  const db = openSqlite({ path, statements, now: Date.now });
  await migrate(db);
  await putQueue(db, 1, {});
  await db.close();
  return path;
}

/** A server of its own process that sends and acknowledges, and says what was answered. */
const CHILD = `
import { createClock } from ${JSON.stringify(new URL("../clock.ts", import.meta.url).href)};
import { openStore } from ${JSON.stringify(new URL("./open.ts", import.meta.url).href)};
const store = await openStore({ url: process.env.FILE, clock: createClock() });
const say = (line) => process.stdout.write(line + "\\n");
say("open");
const senders = Array.from({ length: 8 }, async (_, k) => {
  for (let i = 0; ; i++) {
    const body = process.env.ROUND + "-" + k + "-" + i;
    const row = { queueNo: 1, body: Buffer.from(body), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
    const [result] = await store.send([row]);
    if (result.seq) say("sent " + body);
    const { batches } = await store.claim({ queueNo: 1, batchSize: 2, batches: 1, leaseMs: 1 });
    const rows = batches.flat().filter((_, j) => (i + j) % 2 === 0);
    for (const m of rows) say("acking " + Buffer.from(m.body));
    const results = await store.settle(rows.map((m) => ({ queueNo: 1, seq: m.seq, receipt: m.receipt, outcome: "ack" })));
    rows.forEach((m, j) => results[j].result === "acked" && say("acked " + Buffer.from(m.body)));
  }
});
await Promise.all(senders);
`;

describe("a SQLite file", () => {
  it("Q6, RET-02, STORE-03: killed again and again, it loses no answered send, brings back no answered ack, and opens at once", async () => {
    const path = await file();
    const sent = new Set<string>();
    const acking = new Set<string>();
    const acked = new Set<string>();
    for (let round = 0; round < 3; round++) {
      const child = spawn(process.execPath, ["--import", "tsx", "--conditions=@millrace/source", "--input-type=module", "-e", CHILD], {
        env: { ...process.env, FILE: path, ROUND: String(round) },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const exit = once(child, "exit");
      let heard = 0;
      for await (const line of createInterface({ input: child.stdout })) {
        const [what, body] = line.split(" ") as [string, string];
        if (what === "sent") sent.add(body);
        if (what === "acking") acking.add(body);
        if (what === "acked") acked.add(body);
        if (++heard === 150) child.kill("SIGKILL");
      }
      await exit;
    }
    const db = new Database(path, { readonly: true });
    const stored = new Set((db.prepare("SELECT body FROM message").all() as { body: Buffer }[]).map(({ body }) => body.toString()));
    db.close();
    expect(sent.size).toBeGreaterThan(50);
    expect([...acked].filter((body) => stored.has(body))).toEqual([]);
    expect([...sent].filter((body) => !stored.has(body) && !acking.has(body))).toEqual([]);
  });

  it("STORE-03: a second server on the same file refuses to start and says why; the first one's end frees it", async () => {
    const path = await file();
    const first = await opened(path);
    await expect(openStore({ url: path, clock: createClock() })).rejects.toThrow(/Another Millrace server is using/);
    await first.close();
    open.length = 0;
    const second = await opened(path);
    expect(await second.send([row("x")])).toMatchObject([{ deduplicated: false }]);
  });

  it("P5: the file and the log beside it are their owner's alone to read", async () => {
    const path = await file();
    const store = await opened(path);
    await store.send([row("x")]);
    for (const name of [path, `${path}-wal`]) expect(statSync(name).mode & 0o077).toBe(0);
  });

  it("STORE-04, Q2: with too little space left sends are refused, settles go on, and it recovers by itself", async () => {
    const path = await file();
    let freeBytes = 2 ** 40;
    let looks = 0;
    const store = await opened(path, {
      freeSpace: async () => {
        looks++;
        return { freeBytes, totalBytes: 2 ** 40 };
      },
    });
    await store.send([row("kept")]);
    freeBytes = 200 * 1024 * 1024;
    const until = async (refused: boolean) => {
      for (;;) {
        const [result] = await store.send([row("more")]);
        if ("refused" in (result as object) === refused) return result;
        const seen = looks;
        while (looks === seen) await store.send([row("more")]);
      }
    };
    expect(await until(true)).toEqual({ refused: "backlog_full" });
    await expect(store.once(null, "sendMessages", [row("x")])).rejects.toMatchObject({ code: "backlog_full" });
    const { batches } = await store.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null });
    const [m] = batches.flat();
    expect(await store.settle([{ queueNo: 1, seq: m?.seq as number, receipt: m?.receipt as number, outcome: "ack" }])).toEqual([
      { result: "acked" },
    ]);
    freeBytes = 2 ** 40;
    expect(await until(false)).toMatchObject({ deduplicated: false });
  });

  it("STORE-02, STORE-03: no other program gets to read the open file, so the log is emptied in time", async () => {
    const path = await file();
    const store = await opened(path);
    const reader = new Database(path, { readonly: true, timeout: 0 });
    expect(() => reader.prepare("SELECT count(*) FROM message").get()).toThrow(/locked/);
    const body = "x".repeat(20_000);
    let longest = 0;
    for (let i = 0; i < 80; i++) {
      await store.send(Array.from({ length: 100 }, () => row(body)));
      longest = Math.max(longest, statSync(`${path}-wal`).size);
    }
    reader.close();
    // Twice that was written. The bound is 64 MiB and the transaction that passes it.
    expect(longest).toBeLessThan(80 * 1024 * 1024);
  });

  it("STORE-03: a program that reads the file keeps the server from starting, which says so", async () => {
    const path = await file();
    const reader = new Database(path, { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM message").get();
    await expect(openStore({ url: path, clock: createClock() })).rejects.toThrow(/or another program has it open/);
    reader.close();
    await opened(path);
  });

  it("STORE-04, Q2, Q6: a file that can't grow stores nothing of what it refuses, still settles, and goes on with the space that frees", async () => {
    const path = await file();
    const raw = new Database(path);
    const pages = raw.pragma("page_count", { simple: true }) as number;
    raw.close();
    const store = await opened(path, { maxPages: pages + 40 });
    const kept = new Set<string>();
    const isRefused = async (name: string, count = 3): Promise<boolean> => {
      const bodies = Array.from({ length: count }, (_, k) => `${name}-${k}-${"x".repeat(30_000)}`);
      const results = await store.send(bodies.map(row));
      const refused = results.filter((result) => "refused" in result && result.refused === "backlog_full").length;
      expect([0, count]).toContain(refused);
      if (refused === 0) for (const body of bodies) kept.add(body);
      return refused > 0;
    };
    let n = 0;
    while (!(await isRefused(`first${n}`))) n++;
    expect(n).toBeGreaterThan(1);
    await expect(store.once(null, "sendMessages", [row("y".repeat(200_000))])).rejects.toMatchObject({ code: "backlog_full" });

    // Acknowledgements beside a send that is refused even with the space that they free.
    const take = async () => (await store.claim({ queueNo: 1, batchSize: 3, batches: 1, leaseMs: null })).batches.flat();
    const settle = async (messages: Awaited<ReturnType<typeof take>>) => {
      const rows = messages.map((m) => ({ queueNo: 1, seq: m.seq, receipt: m.receipt, outcome: "ack" as const }));
      for (const { result } of await store.settle(rows)) expect(result).toBe("acked");
      for (const m of messages) expect(kept.delete(Buffer.from(m.body).toString())).toBe(true);
    };
    const first = await take();
    expect(first).toHaveLength(3);
    const [refused] = await Promise.all([isRefused("beside", 9), settle(first)]);
    expect(refused).toBe(true);
    expect(await isRefused("again")).toBe(false);
    for (let batch = await take(); batch.length > 0; batch = await take()) await settle(batch);
    expect(kept.size).toBe(0);
  });

  it("A11: migrations run once each and forwards; a newer schema is refused and left as it is", async () => {
    const path = join(scratch("migrate").path, "store.db");
    const db = openSqlite({ path, statements, now: Date.now });
    const now = migrations.length;
    const next = { version: now + 1, name: "next", sql: "CREATE TABLE later (a integer);\nINSERT INTO later VALUES (1);" };
    expect(await migrate(db)).toBe(now);
    expect(await migrate(db)).toBe(now);
    const broken = { ...next, sql: "CREATE TABLE later (a integer);\nCREATE TABLE later (a integer);" };
    await expect(migrate(db, [...migrations, broken])).rejects.toThrow();
    expect(await migrate(db, [...migrations, next])).toBe(now + 1);
    await expect(migrate(db)).rejects.toThrow(`schema ${now + 1}, this program knows schemas up to ${now}`);
    const rows = await db.transaction((tx) => tx.query("SELECT a FROM later"));
    expect(rows).toEqual([{ a: 1 }]);
    await db.close();
  });

  it("LEASE-11: a wall clock that steps back and forth ends no lease early and leaves none for ever", async () => {
    const path = await file();
    let [wall, monotonic] = [Date.now(), 0];
    const clock = createClock({ wall: () => wall, monotonic: () => monotonic });
    const pass = (ms: number) => {
      wall += ms;
      monotonic += ms;
    };
    const store = await openStore({ url: path, clock });
    open.push(store);
    await store.send([row("leased"), { ...row("delayed"), delayMs: 30_000 }]);
    const take = async () => (await store.claim({ queueNo: 1, batchSize: 10, batches: 1, leaseMs: 30_000 })).batches.flat();
    expect(await take()).toHaveLength(1);
    pass(10_000);
    wall -= 3_600_000;
    pass(19_000);
    expect(await take()).toHaveLength(0);
    pass(1_001);
    expect((await take()).map((m) => Buffer.from(m.body).toString()).sort()).toEqual(["delayed", "leased"]);
    wall += 7_200_000;
    expect((await take()).map((m) => m.receives).sort()).toEqual([2, 3]);
  });
});
