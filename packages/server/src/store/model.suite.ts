/**
 * A seeded run does the same random operations on an engine and on the obvious model of it (`model-state.suite.ts`), and holds every answer
 * and the whole state against each other (`model-checks.suite.ts`).
 */
import assert from "node:assert/strict";
import { defaults, dropQueue, putQueue, type TestEngine } from "./engines.suite.ts";
import type { HotBatch } from "./hot.ts";
import { messageId } from "./message-id.ts";
import { adopt, checkClaim, checkLooks, checkNext, checkState } from "./model-checks.suite.ts";
import { bySeq, createModel, type ModelMessage } from "./model-state.suite.ts";
import { randomOf } from "./random.ts";
import { regroup } from "./regroup.ts";
import type { StoredSend } from "./send.ts";
import type { QueueSettings, SettleRow } from "./types.ts";

const QUEUES: [no: number, type: "standard" | "fifo", settings: Partial<QueueSettings>][] = [
  [1, "standard", { retentionMs: 40_000, deduplicationWindowMs: 5_000, maxAttempts: 3, deadLetter: "list" }],
  [2, "fifo", { retentionMs: 60_000, deduplicationWindowMs: 3_000, maxAttempts: 2, deadLetter: "queue", deadLetterNo: 4 }],
  [3, "standard", { retentionMs: 30_000, deduplicationWindowMs: 9_000, deadLetter: "drop", delayMs: 700, groupConcurrency: null }],
  [4, "fifo", { retentionMs: 90_000, deduplicationWindowMs: 0, maxAttempts: 4, deadLetter: "list" }],
  [5, "standard", { retentionMs: 50_000, maxAttempts: 3, deadLetter: "queue", deadLetterNo: 3, groupConcurrency: 2 }],
  [6, "standard", { retentionMs: 45_000, maxAttempts: 2, deadLetter: "queue", deadLetterNo: 7, visibilityTimeoutMs: 3_000 }],
  [7, "standard", { retentionMs: 80_000, maxBytes: 400 }],
  [8, "standard", { retentionMs: 35_000, maxAttempts: 2, deadLetter: "drop", groupConcurrency: null }],
];
const ERROR_OF_LAPSE = "the lease of the last attempt ended without an answer";

/** Runs `operations` random ones; answers everything the engine answered, to compare engines with each other. */
export async function runModel(test: TestEngine, seed: number, operations: number): Promise<string[]> {
  const random = randomOf(seed);
  const below = (n: number) => Math.floor(random() * n);
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const chance = (p: number) => random() < p;

  /** Most of a run happens in two queues, so that messages meet. */
  const focus = [1 + below(8), 1 + below(8)];
  const someQueue = () => (chance(0.6) ? pick(focus) : 1 + below(8));
  const model = createModel(test.time.now);
  const { queues, messages, counts, dedup, held, queueOf, count, inFlight, spentOut } = model;
  const transcript: string[] = [];
  // Which numbers messages get is each engine's own affair, in what order is not: the transcript counts them as they appear.
  const appeared = new Map<number, number>();
  const nameOf = (seq: number): number => {
    if (!appeared.has(seq)) appeared.set(seq, appeared.size);
    return appeared.get(seq) as number;
  };

  const put = async (no: number, type: "standard" | "fifo", change: Partial<QueueSettings>): Promise<void> => {
    const settings = { ...defaults, ...change };
    await putQueue(test.db, no, settings, type);
    queues.set(no, { ...settings, no, type, limit: type === "fifo" ? 1 : settings.groupConcurrency });
  };
  for (const [no, type, settings] of QUEUES) {
    await put(no, type, settings);
    counts.set(no, { sent: 0, acked: 0, expired: 0 });
  }
  const hot = async (batch: Partial<HotBatch>) => test.engine.hot({ settles: [], claims: [], sends: [], ...batch });
  const cold = async (verb: string, ...args: unknown[]) => (await test.engine.cold({ verb, args, key: null })).result;

  /** The new numbers of what moved, ascending beyond all before. */
  const renumber = async (): Promise<void> => {
    for (const m of model.moved.splice(0)) {
      const rows = await test.db.transaction((tx) =>
        tx.query<{ seq: number }>("SELECT seq FROM message WHERE queue_no = :no AND (seq = :origin OR origin = :origin)", {
          no: m.queueNo,
          origin: m.origin,
        }),
      );
      assert.equal(rows.length, 1, "Q13: a moved message is in exactly one place");
      const seq = rows[0]?.seq as number;
      assert.ok(seq > m.seq, "Q13: a move draws a new number");
      m.seq = seq;
      model.highest = Math.max(model.highest, seq);
    }
  };

  const operation: Record<string, () => Promise<unknown>> = {
    async send() {
      const sends = Array.from({ length: 1 + below(6) }, (): StoredSend => {
        const queueNo = chance(0.02) ? 99 : someQueue();
        const fifo = queues.get(queueNo)?.type === "fifo";
        return {
          queueNo,
          body: Buffer.from(`body ${below(1000)}`),
          attributes: null,
          meta: null,
          groupKey: fifo || chance(0.6) ? `g${below(3)}` : null,
          dedupId: chance(0.3) ? `d${below(8)}` : null,
          delayMs: chance(0.25) ? below(8_000) : null,
        };
      });
      const { sends: results } = await hot({ sends });
      const firstNew = model.highest + 1;
      for (const [i, row] of sends.entries()) {
        const result = results[i] as (typeof results)[number];
        const queue = queues.get(row.queueNo);
        if (queue === undefined) {
          assert.deepEqual(result, { refused: "queue_not_found" });
          continue;
        }
        if (queue.maxBytes !== null) {
          const bytes = [...messages.values()].filter((m) => m.queueNo === queue.no).length;
          if ("refused" in result) {
            assert.ok(bytes > 20, "Q2: refused only near the limit");
            continue;
          }
        }
        assert.ok(!("refused" in result));
        const key = `${row.queueNo} ${row.dedupId}`;
        const first = row.dedupId === null ? undefined : dedup.get(key);
        const dueAt = model.now + (row.delayMs ?? queue.delayMs);
        if (first !== undefined && first.until > model.now) {
          assert.deepEqual(result, { seq: first.origin, sentAt: first.sentAt, deduplicated: true, deliverAt: first.dueAt }, "Q11");
          continue;
        }
        assert.ok(result.seq >= firstNew && result.seq > model.highest - sends.length, "Q3: numbers rise");
        assert.deepEqual({ ...result, seq: 0 }, { seq: 0, sentAt: model.now, deduplicated: false, deliverAt: dueAt });
        if (row.dedupId !== null && queue.deduplicationWindowMs > 0)
          dedup.set(key, { origin: result.seq, sentAt: model.now, dueAt, until: model.now + queue.deduplicationWindowMs });
        model.highest = Math.max(model.highest, result.seq);
        count(queue.no, "sent");
        messages.set(result.seq, {
          seq: result.seq,
          origin: result.seq,
          queueNo: queue.no,
          group: row.groupKey,
          sentAt: model.now,
          dueAt,
          expiresAt: dueAt + queue.retentionMs,
          receives: 0,
          attempts: 0,
          receipt: null,
          final: false,
          deadAt: null,
          sourceNo: null,
          error: null,
        });
      }
      return results;
    },

    async claim() {
      const asks = [...queues.keys()]
        .filter((no) => chance(focus.includes(no) ? 0.7 : 0.3))
        .map((queueNo) => ({ queueNo, batchSize: 1 + below(5), batches: 1 + below(3), leaseMs: chance(0.3) ? null : 200 + below(4_000) }));
      if (asks.length === 0) return null;
      const { claims, late } = await hot({ claims: asks });
      asks.forEach((ask, i) => {
        const claim = claims[i] as (typeof claims)[number];
        const lateHere = late.filter((row) => row.queueNo === ask.queueNo);
        checkClaim(model, ask, claim.batches, lateHere);
        adopt(model, ask, claim.batches.flat(), lateHere);
        checkNext(model, ask, claim, lateHere.length, test.littered);
      });
      if (late.length > 0) {
        const { settles } = await hot({ settles: late.map((row) => ({ ...row, outcome: "expire" as const })) });
        for (const { result } of settles) assert.equal(result, "expired");
        for (const row of late) {
          const m = [...messages.values()].find((each) => each.seq === row.seq) as ModelMessage;
          count(m.queueNo, "expired");
          messages.delete(m.origin);
        }
      }
      return claims.map(({ batches, nextInMs }) => [batches.map((batch) => batch.map((m) => nameOf(m.seq))), nextInMs]);
    },

    async settle() {
      const rows: (SettleRow & { origin: number })[] = [];
      for (let i = 0; i < 6 && held.length > 0; i++) {
        const at = below(held.length);
        const lease = held[at] as (typeof held)[number];
        const outcome = pick(["ack", "ack", "ack", "retry", "retry", "release", "dead", "extend"] as const);
        if (outcome !== "extend" && !chance(0.1)) held.splice(at, 1);
        const { queueNo, origin, seq, receipt } = lease;
        rows.push({
          queueNo,
          origin,
          seq,
          receipt,
          outcome,
          delayMs: pick([0, 100, 2_000]),
          error: chance(0.5) ? `e${below(9)}` : undefined,
        });
      }
      if (chance(0.1)) rows.push({ queueNo: 1, origin: -1, seq: model.highest + 50, receipt: 2, outcome: "ack" });
      const { settles } = await hot({ settles: rows });
      // In one transaction acknowledgements come first, and a message named twice is settled in the order of the rows.
      const rank = { ack: 0, extend: 1, retry: 2, release: 2, dead: 3 };
      const order = rows.map((row, i) => ({ row, i, round: rows.slice(0, i).filter((other) => other.seq === row.seq).length }));
      order.sort((a, b) => a.round - b.round || rank[a.row.outcome] - rank[b.row.outcome] || a.row.seq - b.row.seq);
      for (const { row, i } of order) assert.deepEqual(settles[i], model.settle(row), `${JSON.stringify(row)} at ${model.now}`);
      await renumber();
      return settles;
    },

    async sweep() {
      const lapsed = [...messages.values()].filter(spentOut);
      const done = await cold("sweepLapsed", 1000);
      assert.equal(done, lapsed.length, "Q13: the sweep takes what lapsed for the last time");
      for (const m of bySeq(lapsed)) {
        if (m.expiresAt <= model.now) {
          messages.delete(m.origin);
          count(m.queueNo, "expired");
        } else model.bury(m, ERROR_OF_LAPSE, model.now);
      }
      await renumber();
      const expired = [...messages.values()].filter((m) => m.expiresAt <= model.now && !inFlight(m));
      assert.equal(await cold("sweepExpired", 1000), expired.length, "Q18");
      for (const m of expired) {
        messages.delete(m.origin);
        count(m.queueNo, "expired");
      }
      await cold("sweepDedup", 1000);
      return [done, expired.length];
    },

    async redrive() {
      const no = pick([1, 3, 4, 7]);
      const letters = bySeq([...messages.values()].filter((m) => m.queueNo === no && (m.deadAt !== null || m.sourceNo !== null))).slice(
        0,
        4,
      );
      const { moveDeadLetters } = await import("./move.ts");
      const moved = await test.db.transaction((tx) =>
        moveDeadLetters(
          tx,
          no,
          letters.map((m) => m.seq),
        ),
      );
      const going = letters.filter((m) => m.deadAt !== null || (queues.has(m.sourceNo as number) && !inFlight(m)));
      assert.deepEqual(
        moved.seqs.map(({ was }) => was).sort((a, b) => a - b),
        going.map((m) => m.seq),
        "Q14",
      );
      assert.equal(moved.failed, letters.filter((m) => m.deadAt === null && !queues.has(m.sourceNo as number)).length);
      const before = model.highest;
      for (const m of going) {
        const to = m.deadAt !== null ? no : (m.sourceNo as number);
        m.seq = moved.seqs.find(({ was }) => was === m.seq)?.seq as number;
        assert.ok(m.seq > before);
        model.highest = Math.max(model.highest, m.seq);
        Object.assign(m, { queueNo: to, deadAt: null, dueAt: model.now, expiresAt: model.now + queueOf(to).retentionMs });
        Object.assign(m, { receives: 0, attempts: 0, receipt: null, final: false });
      }
      return moved;
    },

    async remove() {
      const all = [...messages.values()];
      if (all.length === 0) return null;
      const m = pick(bySeq(all));
      assert.equal(await cold("deleteMessage", m.queueNo, messageId(m.sentAt, m.origin)), true);
      assert.equal(await cold("getMessage", m.queueNo, messageId(m.sentAt, m.origin)), null);
      messages.delete(m.origin);
      return nameOf(m.seq);
    },

    async purge() {
      if (!chance(0.3)) return null;
      const no = 1 + below(8);
      const scope = pick(["all", "dead"] as const);
      const gone = [...messages.values()].filter((m) => m.queueNo === no && (scope === "all" || m.deadAt !== null));
      let purged = 0;
      let upto: number | null = null;
      for (let done = false; !done; ) {
        const step = (await cold("purge", no, scope, upto, 7)) as { purged: number; uptoSeq: number; done: boolean };
        purged += step.purged;
        upto = step.uptoSeq;
        model.highest = Math.max(model.highest, upto);
        done = step.done;
      }
      assert.equal(purged, gone.length, "Q15");
      for (const m of gone) messages.delete(m.origin);
      return purged;
    },

    async change() {
      const no = pick([...queues.keys()]);
      const [, type, settings] = QUEUES.find(([each]) => each === no) as (typeof QUEUES)[number];
      const queue = queueOf(no);
      const maxAttempts = settings.maxAttempts == null ? null : pick([1, 2, 3, 5]);
      const groupConcurrency = type === "fifo" || chance(0.6) ? queue.groupConcurrency : pick([1, 2, 3, null]);
      await put(no, type, { ...settings, paused: chance(0.5) ? false : !queue.paused, maxAttempts, groupConcurrency });
      if (groupConcurrency !== queue.groupConcurrency) await test.db.transaction((tx) => regroup(tx, no, groupConcurrency));
      return [no, groupConcurrency, queueOf(no).paused, maxAttempts];
    },

    /** DLQ-01: the dead-letter queue of queue 6 goes and comes. */
    async target() {
      if (chance(0.5)) return null;
      if (queues.has(7)) {
        await dropQueue(test.db, 7);
        queues.delete(7);
        await test.db.transaction(async (tx) => {
          await tx.query("DELETE FROM message WHERE queue_no = 7");
          await tx.query("DELETE FROM dedup WHERE queue_no = 7");
          await tx.query("DELETE FROM tally WHERE queue_no = 7");
        });
        counts.set(7, { sent: 0, acked: 0, expired: 0 });
        for (const m of [...messages.values()]) if (m.queueNo === 7) messages.delete(m.origin);
        for (const key of [...dedup.keys()]) if (key.startsWith("7 ")) dedup.delete(key);
      } else await put(7, "standard", (QUEUES[6] as (typeof QUEUES)[number])[2]);
      return queues.has(7);
    },

    async restart() {
      if (chance(0.5)) await test.reopen();
      return null;
    },
  };

  const weights = [
    "send",
    "send",
    "send",
    "claim",
    "claim",
    "claim",
    "claim",
    "settle",
    "settle",
    "settle",
    "settle",
    "sweep",
    "redrive",
    "remove",
  ];
  const names = [...weights, "purge", "change", "target", "restart"];
  for (let i = 0; i < operations; i++) {
    model.now += pick([0, 1, 5, 50, 300, 1_000, 3_000]);
    test.time.now = model.now;
    const name = pick(names);
    const answer = await (operation[name] as () => Promise<unknown>)();
    const told = JSON.stringify(answer, (key, value) => (key === "seq" || key === "was" ? nameOf(value as number) : value));
    transcript.push(`${i} ${name} ${told}`);
    const when = `operation ${i} (${name}, seed ${seed})`;
    if (i % 3 === 0) await checkState(test, model, when);
    if (i % 9 === 0) await checkLooks(cold, model, when);
  }
  await checkState(test, model, "the end");
  return transcript;
}
