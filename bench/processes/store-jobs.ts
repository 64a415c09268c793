/**
 * The store alone on PostgreSQL, without HTTP, and beside it what one writes without it: each step a statement and a commit of its own, over
 * so many connections. Jobs come from the bench over IPC; each ends after `seconds` and answers how much it did a second.
 */
import pg from "pg";
import { createClock } from "../../packages/server/src/clock.ts";
import { type OpenStore, openStore } from "../../packages/server/src/store/open.ts";
import { serveJobs } from "../parts/child.mjs";
import { sleep } from "../parts/machine.mjs";
import { seedSql } from "../parts/queue-settings.ts";

const body = Buffer.alloc(1000, "lorem ipsum ");
const row = { queueNo: 1, body, attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
/** Callers at once: as many as requests in flight on a busy server. */
const SENDERS = 256;
const CONSUMERS = 8;

let store: OpenStore;
let pool: pg.Pool;

/** Runs `lanes` loops of `step` until `seconds` are over; `step` answers how much it did. */
async function perSecond(lanes: number, seconds: number, step: () => Promise<number>): Promise<number> {
  const begun = performance.now();
  const end = begun + seconds * 1000;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      const more = await step();
      done += more;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (done * 1000) / (performance.now() - begun);
}

serveJobs({
  async open({ url, connections }: { url: string; connections: number }) {
    store = await openStore({ url, clock: createClock() });
    pool = new pg.Pool({ connectionString: url, max: connections });
    await pool.query(`${seedSql("standard")};
      CREATE TABLE bare (id bigserial PRIMARY KEY, queue integer NOT NULL, due_at timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL);
      CREATE INDEX bare_due ON bare (queue, due_at)`);
  },
  async empty() {
    await pool.query("TRUNCATE message, tally, bare");
  },
  bareSends: ({ connections, seconds }: { connections: number; seconds: number }) =>
    perSecond(connections, seconds, async () => {
      await pool.query({ name: "insert", text: "INSERT INTO bare (queue, body) VALUES (1, $1)", values: [body] });
      return 1;
    }),
  bareLives: ({ connections, seconds }: { connections: number; seconds: number }) =>
    perSecond(connections, seconds, async () => {
      await pool.query({ name: "insert", text: "INSERT INTO bare (queue, body) VALUES (1, $1)", values: [body] });
      const { rows } = await pool.query({
        name: "claim",
        text: `UPDATE bare SET due_at = now() + interval '30 s' WHERE id = (SELECT id FROM bare WHERE queue = 1 AND due_at <= now()
          ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body`,
      });
      if (rows.length === 0) return 0;
      await pool.query({ name: "delete", text: "DELETE FROM bare WHERE id = $1", values: [rows[0].id] });
      return 1;
    }),
  sends: ({ seconds }: { seconds: number }) =>
    perSecond(SENDERS, seconds, async () => {
      await store.send([row]);
      return 1;
    }),
  async lives({ seconds }: { seconds: number }) {
    let unfinished = 0;
    const sending = perSecond(SENDERS, seconds, async () => {
      if (unfinished > 4_000) await sleep(1);
      else {
        unfinished += 1;
        await store.send([row]);
      }
      return 0;
    });
    const handled = perSecond(CONSUMERS, seconds, async () => {
      const got = (await store.claim({ queueNo: 1, batchSize: 100, batches: 1, leaseMs: null })).batches.flat();
      if (got.length === 0) await sleep(1);
      await store.settle(got.map(({ seq, receipt }) => ({ queueNo: 1, seq, receipt, outcome: "ack" as const })));
      unfinished -= got.length;
      return got.length;
    });
    await sending;
    return handled;
  },
});
