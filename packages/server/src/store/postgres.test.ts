import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { postgres } from "@millrace/testkit";
import pg from "pg";
import { afterEach, describe, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openPostgres } from "../db/postgres.ts";
import { putQueue } from "./engines.suite.ts";
import { migrate } from "./migrate.ts";
import { type OpenStore, openStore } from "./open.ts";
import { statements } from "./statements.ts";
import type { ClaimedMessage, QueueSettings, SendRow } from "./types.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function database(...queues: [no: number, settings: Partial<QueueSettings>, type?: "standard" | "fifo"][]): Promise<string> {
  const url = await (await postgres()).fresh();
  const db = openPostgres({ url, statements, offset: () => 0 });
  await migrate(db);
  for (const [no, settings, type] of queues) await putQueue(db, no, settings, type);
  await db.close();
  return url;
}
async function node(url: string, aheadMs = 0): Promise<OpenStore> {
  const store = await openStore({ url, clock: createClock({ wall: () => Date.now() + aheadMs }) });
  open.push(store);
  return store;
}
const row = (queueNo: number, groupKey: string | null, delayMs: number | null = null): SendRow => ({
  queueNo,
  groupKey,
  delayMs,
  body: Buffer.from("x"),
  attributes: null,
  meta: null,
  dedupId: null,
});

describe("PostgreSQL alone", () => {
  it("LEASE-08: nodes whose clocks differ by minutes hand nothing out twice and hold nothing back", async () => {
    const url = await database([1, {}]);
    const [behind, right, ahead] = [await node(url, -300_000), await node(url), await node(url, 300_000)];
    await right.send(Array.from({ length: 30 }, () => row(1, null)));
    await ahead.send([row(1, null, 60_000)]);
    const take = (store: OpenStore) => store.claim({ queueNo: 1, batchSize: 10, batches: 4, leaseMs: 30_000 });
    const got = (await Promise.all([take(behind), take(ahead), take(right)])).flatMap(({ batches }) => batches.flat());
    for (const store of [ahead, behind, right]) await store.run("sweepLapsed", 100);
    const rest = (await Promise.all([take(ahead), take(behind)])).flatMap(({ batches }) => batches.flat());
    const seqs = [...got, ...rest].map((m) => m.seq);
    expect(seqs).toHaveLength(30);
    expect(new Set(seqs).size).toBe(30);
    const { nextInMs } = await take(ahead);
    expect(nextInMs).toBeGreaterThan(20_000);
    expect(nextInMs).toBeLessThanOrEqual(30_000);
  });

  it("Q9, Q13, Q19, STORE-09: claimers, settlers, senders and sweeps of two nodes at once break no order, lease nothing twice and lock nothing up", async () => {
    const url = await database(
      [1, { maxAttempts: 3, deadLetter: "list" }],
      [2, { maxAttempts: 2, deadLetter: "queue", deadLetterNo: 3 }, "fifo"],
      [3, {}, "fifo"],
      [4, { groupConcurrency: 2, maxAttempts: 3, deadLetter: "drop" }],
      [5, { groupConcurrency: null }],
    );
    const nodes = [await node(url), await node(url)] as const;
    /** Leases by message, from the answer of the claim to the question of the settle. */
    const leased = new Map<string, number>();
    const flying = new Map<string, number>();
    const faults: string[] = [];
    let claimed = 0;
    const begin = (queueNo: number, m: ClaimedMessage) => {
      claimed++;
      const key = `${queueNo} ${m.messageId}`;
      if (leased.has(key)) faults.push(`${key} twice`);
      leased.set(key, m.receipt);
      if (m.groupKey === null) return;
      const group = `${queueNo} ${m.groupKey}`;
      flying.set(group, (flying.get(group) ?? 0) + 1);
      if (queueNo === 4 && (flying.get(group) as number) > 2) faults.push(`${group} over its limit`);
    };
    const end = (queueNo: number, m: ClaimedMessage) => {
      leased.delete(`${queueNo} ${m.messageId}`);
      const group = `${queueNo} ${m.groupKey}`;
      if (m.groupKey !== null) flying.set(group, (flying.get(group) as number) - 1);
    };
    const rounds = 40;
    const sender = async (store: OpenStore, salt: number) => {
      for (let i = 0; i < rounds; i++)
        await store.send(
          Array.from({ length: 12 }, (_, k) =>
            row(1 + ((i + k) % 5), (i + k) % 5 > 0 || k % 2 ? `g${(i * salt + k) % 4}` : null, k === 0 ? 20 : null),
          ),
        );
    };
    const claimer = async (store: OpenStore, salt: number) => {
      for (let i = 0; i < rounds * 2; i++) {
        const queueNo = 1 + ((i + salt) % 5);
        const { batches } = await store.claim({ queueNo, batchSize: 4, batches: 2, leaseMs: 60_000 });
        for (const batch of batches) {
          if (queueNo === 2 || queueNo === 3)
            for (const group of new Set(batch.map((m) => m.groupKey)))
              if ((flying.get(`${queueNo} ${group}`) ?? 0) > 0) faults.push(`${queueNo} ${group} open while in flight`);
          for (const m of batch) begin(queueNo, m);
        }
        const all = batches.flat();
        // Something else goes its way while the leases are held.
        if (all.length > 0) await store.run("stats", queueNo);
        for (const m of all) end(queueNo, m);
        await store.settle(
          all.map((m, k) => ({
            queueNo,
            seq: m.seq,
            receipt: m.receipt,
            outcome: (["ack", "ack", "retry", "release", "dead"] as const)[(i + k) % 5] ?? "ack",
            delayMs: (i + k) % 3 ? 0 : 15,
          })),
        );
      }
    };
    const sweeper = async (store: OpenStore) => {
      for (let i = 0; i < rounds; i++) {
        await store.run("sweepLapsed", 100);
        await store.run("sweepExpired", 100);
      }
    };
    await Promise.all([
      ...nodes.map((store, i) => sender(store, i + 1)),
      ...nodes.flatMap((store, i) => [claimer(store, i), claimer(store, i + 2), claimer(store, i + 3)]),
      ...nodes.map(sweeper),
    ]);
    expect(faults).toEqual([]);
    expect(claimed).toBeGreaterThan(300);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    open.push({ close: () => client.end() });
    const heads = await client.query(
      `SELECT queue_no, group_key FROM message WHERE group_key IS NOT NULL AND dead_at IS NULL AND later_at IS NULL AND queue_no <> 4
       GROUP BY 1, 2 HAVING count(line_at) <> 1 OR min(seq) <> min(seq) FILTER (WHERE line_at IS NOT NULL)`,
    );
    expect(heads.rows).toEqual([]);
    const counts = await client.query(
      `SELECT q.no, (SELECT count(*) FROM message m WHERE m.queue_no = q.no AND m.dead_at IS NULL)::int AS live,
       (SELECT sum(t.live) FROM tally t WHERE t.queue_no = q.no)::int AS told FROM queue q ORDER BY q.no`,
    );
    for (const { live, told } of counts.rows) expect(told).toBe(live);
  });

  it("STORE-09: a claim takes the locks of all its queues in one order, so that it never waits in a circle with a settle", async () => {
    const url = await database([3, {}, "fifo"], [10, { groupConcurrency: 2 }]);
    const store = await node(url);
    await store.send([row(3, "g", 1), row(10, "g", 1)]);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    open.push({ close: () => client.end() });
    const locks = async (granted: boolean) =>
      (
        await client.query<{ objid: number }>(
          `SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' AND classid = 7401 AND granted = $1
             AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
          [granted],
        )
      ).rows.map((lock) => lock.objid);
    await expect
      .poll(async () => (await client.query("SELECT 1 FROM message WHERE later_at <= extract(epoch FROM now()) * 1000")).rowCount)
      .toBe(2);
    await client.query("SELECT pg_advisory_lock(7401, 3)");
    const ask = { batchSize: 10, batches: 1, leaseMs: null };
    const claims = Promise.all([10, 3].map((queueNo) => store.claim({ queueNo, ...ask })));
    await expect.poll(() => locks(false)).toEqual([3]);
    expect(await locks(true)).toEqual([]);
    await client.query("SELECT pg_advisory_unlock(7401, 3)");
    expect((await claims).map(({ batches }) => batches.flat().length)).toEqual([1, 1]);
  });

  it.each(["dead letter", "redrive"])(
    "Q9, Q13, Q14: a %s that joins a group waits for the claim that is leasing the group's head",
    async (kind) => {
      const url = await database([2, { maxAttempts: 1, deadLetter: "queue", deadLetterNo: 3 }, "fifo"], [3, {}, "fifo"]);
      const store = await node(url);
      const [into, from] = kind === "redrive" ? ([2, 3] as const) : ([3, 2] as const);
      const claim = async (queueNo: number) => (await store.claim({ queueNo, batchSize: 1, batches: 1, leaseMs: 60_000 })).batches.flat();
      const bury = async (m: ClaimedMessage | undefined) =>
        store.settle([{ queueNo: 2, seq: m?.seq ?? 0, receipt: m?.receipt ?? 0, outcome: "dead" as const }]);
      await store.send([row(2, "g")]);
      const [letter] = await claim(2);
      if (kind === "redrive") await bury(letter);
      await store.send([row(into, "g")]);
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      open.push({ close: () => client.end() });
      // What a claim does, held open before its commit.
      await client.query("BEGIN");
      const until = Date.now() + 60_000;
      const { rowCount } = await client.query(
        `UPDATE message SET line_at = $1, due_at = $1, receipt = 1, receives = 1, attempts = 1, held_key = group_key
       WHERE queue_no = $2`,
        [until, into],
      );
      expect(rowCount).toBe(1);
      const seqs = (await client.query<{ seq: string }>("SELECT seq FROM message WHERE queue_no = $1", [from])).rows.map((m) =>
        Number(m.seq),
      );
      expect(seqs).toHaveLength(1);
      const moving =
        kind === "redrive" ? store.run("startRedrive", { id: "r", queueNo: 3, messageIds: null, ratePerSecond: null }) : bury(letter);
      const step = kind === "redrive" ? moving.then(() => store.run("stepRedrive")) : moving;
      const waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
      await expect.poll(async () => (await client.query(waits)).rowCount).toBe(1);
      await client.query("COMMIT");
      await step;
      expect(await claim(into)).toEqual([]);
    },
  );

  it("STORE-09, Q18: whatever the statistics say, hot statements go by their index and examine no backlog", async () => {
    const url = await database([1, {}]);
    const client = new pg.Client({
      connectionString: url,
      options: "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off",
    });
    await client.connect();
    open.push({ close: () => client.end() });
    const texts = openPostgres({ url, statements, offset: () => 0 });
    open.push(texts);
    const far = Date.now() + 10 ** 9;
    await client.query(
      `INSERT INTO message (seq, origin, queue_no, line_at, later_at, due_at, sent_at, expires_at, group_key, body, receives, attempts)
       SELECT i, i, 1, CASE WHEN i % 2 = 0 THEN $1::bigint END, CASE WHEN i % 2 = 1 THEN $1::bigint END, $1, 1, $1 + 10,
         CASE WHEN i % 2 = 1 THEN 'g' || (i % 500) END, 'x', 0, 0 FROM generate_series(1, 40000) AS s(i)`,
      [far],
    );
    const now = Date.now();
    const cases: [statement: string, values: unknown[], index: string][] = [
      ["claim.heads", [[1], [0], [10], [now + 1], [2], [5], [0], now], "message_line"],
      ["group.arrivals", [[1], [0], [100], now], "message_later"],
      ["claim.next", [[1], ["g1"], [0], [10]], "message_group"],
      ["sweep.expired", [[100], now], "message_expiry"],
      ["sweep.lapsed", [[100], now], "message_final"],
      ["settle.ack", [[7], [1], [3], now], "message_"],
      ["group.promote", [[1], ["g1"], now], "message_group"],
    ];
    for (const analysed of [false, true]) {
      if (analysed) await client.query("ANALYZE message");
      for (const [name, values, index] of cases) {
        await client.query("BEGIN");
        const text = texts.textOf(name);
        const types = [...text.matchAll(/\$(\d+)::(\w+(?:\[\])?)/g)].reduce<string[]>((all, [, n, type]) => {
          all[Number(n) - 1] ??= type as string;
          return all;
        }, []);
        await client.query(`PREPARE one (${types.join(", ")}) AS ${text}`);
        const literal = (value: unknown) =>
          Array.isArray(value)
            ? `'{${value.map((item) => (typeof item === "string" ? `"${item}"` : String(item))).join(",")}}'`
            : String(value);
        const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE one (${values.map(literal).join(", ")})`);
        await client.query("DEALLOCATE one");
        await client.query("ROLLBACK");
        const plan = JSON.stringify(rows[0]["QUERY PLAN"]);
        expect(plan, name).toContain(index);
        expect(plan, name).not.toContain('"Node Type":"Seq Scan"');
        const top = rows[0]["QUERY PLAN"][0].Plan;
        expect(top["Shared Hit Blocks"] + top["Shared Read Blocks"], `${name} examines the backlog`).toBeLessThan(300);
      }
    }
  });

  it("A13: a lost database is `unavailable` at once and retryable, and everything goes on when it is back", async () => {
    const url = new URL(await database([1, {}]));
    const target = { host: url.hostname, port: Number(url.port) };
    const sockets = new Set<Socket>();
    let up = true;
    const proxy = createServer((client) => {
      if (!up) return void client.destroy();
      const server = connect(target);
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        sockets.add(from);
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => to.destroy());
      }
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    open.push({ close: async () => void proxy.close() });
    const through = new URL(url);
    through.hostname = "127.0.0.1";
    through.port = String((proxy.address() as { port: number }).port);
    const store = await node(through.href);
    expect(await store.send([row(1, null)])).toMatchObject([{ deduplicated: false }]);
    up = false;
    for (const socket of sockets) socket.destroy();
    await expect(store.send([row(1, null)])).rejects.toMatchObject({ code: "unavailable", details: { retryAfterSeconds: 1 } });
    await expect(store.run("stats", 1)).rejects.toMatchObject({ code: "unavailable" });
    up = true;
    expect(await store.send([row(1, null)])).toMatchObject([{ deduplicated: false }]);
    expect((await store.claim({ queueNo: 1, batchSize: 10, batches: 1, leaseMs: null })).batches.flat().length).toBeGreaterThanOrEqual(2);
  });

  it("STORE-04, Q6: a full disk refuses sends alone: what is settled beside them is settled", async () => {
    const url = await database([1, {}]);
    const store = await node(url);
    await store.send([row(1, null)]);
    const [message] = (await store.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null })).batches.flat();
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
      $do$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $do$`);
    await client.query("CREATE TRIGGER full_disk BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION full_disk()");
    await client.end();
    const ack = { queueNo: 1, seq: message?.seq ?? 0, receipt: message?.receipt ?? 0, outcome: "ack" as const };
    const beside = await Promise.all([store.send([row(1, null)]), store.settle([ack])]);
    expect(beside).toEqual([[{ refused: "backlog_full" }], [{ result: "acked" }]]);
    await expect(store.once(null, "sendMessages", [row(1, null)])).rejects.toMatchObject({ code: "backlog_full" });
  });

  it("A13, Q17: another node hears of a send, and of a changed setting before its next claim", async () => {
    const url = await database([1, {}]);
    const [a, b] = [await node(url), await node(url)];
    expect((await b.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null })).batches).toEqual([]);
    const heard = new Promise<number>((resolve) => b.onReady((queueNo) => resolve(queueNo)));
    let done = false;
    void heard.then(() => {
      done = true;
    });
    // The listener of a node that has just started may still be connecting: what it misses then is the poll's.
    while (!done) await a.send([row(1, null)]);
    expect(await heard).toBe(1);
    await a.run("updateQueue", 1, { paused: true });
    expect((await b.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null })).batches).toEqual([]);
    await a.run("updateQueue", 1, { paused: false });
    expect((await b.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null })).batches).toHaveLength(1);
  });
});
