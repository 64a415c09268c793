/**
 * The obvious store: every message in a map, every rule of queues.md as a plain loop. A seeded run does the same random operations on
 * an engine and on the model, and compares every answer and the whole state. Where rules leave a choice (which of several ready
 * messages a claim takes), the answer is checked against the rules and taken over.
 */
import assert from "node:assert/strict";
import type { StoredMessage } from "./claim.ts";
import { defaults, dropQueue, putQueue, type TestEngine } from "./engines.suite.ts";
import type { HotBatch } from "./hot.ts";
import { messageId } from "./message-id.ts";
import { NEVER } from "./queue-memory.ts";
import { randomOf } from "./random.ts";
import { regroup } from "./regroup.ts";
import type { StoredSend } from "./send.ts";
import type { QueueSettings, SettleResult, SettleRow } from "./types.ts";

interface ModelMessage {
  seq: number;
  origin: number;
  queueNo: number;
  group: string | null;
  sentAt: number;
  dueAt: number;
  expiresAt: number;
  receives: number;
  attempts: number;
  receipt: number | null;
  final: boolean;
  deadAt: number | null;
  sourceNo: number | null;
  error: string | null;
}
type ModelQueue = QueueSettings & { no: number; type: "standard" | "fifo"; limit: number | null };

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
const NO_TARGET = "the dead-letter queue does not exist";

/** Runs `operations` random ones; answers everything the engine answered, to compare engines with each other. */
export async function runModel(test: TestEngine, seed: number, operations: number): Promise<string[]> {
  const random = randomOf(seed);
  const below = (n: number) => Math.floor(random() * n);
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const chance = (p: number) => random() < p;

  /** Most of a run happens in two queues, so that messages meet. */
  const focus = [1 + below(8), 1 + below(8)];
  const someQueue = () => (chance(0.6) ? pick(focus) : 1 + below(8));
  const queues = new Map<number, ModelQueue>();
  const messages = new Map<number, ModelMessage>();
  const dedup = new Map<string, { origin: number; sentAt: number; dueAt: number; until: number }>();
  const held: { queueNo: number; origin: number; seq: number; receipt: number }[] = [];
  const transcript: string[] = [];
  // Which numbers messages get is each engine's own affair, in what order is not: the transcript counts them as they appear.
  const appeared = new Map<number, number>();
  const nameOf = (seq: number): number => {
    if (!appeared.has(seq)) appeared.set(seq, appeared.size);
    return appeared.get(seq) as number;
  };
  const counts = new Map<number, { sent: number; acked: number; expired: number }>();
  let now = test.time.now;
  let highest = 0;

  const put = async (no: number, type: "standard" | "fifo", change: Partial<QueueSettings>): Promise<void> => {
    const settings = { ...defaults, ...change };
    await putQueue(test.db, no, settings, type);
    queues.set(no, { ...settings, no, type, limit: type === "fifo" ? 1 : settings.groupConcurrency });
  };
  for (const [no, type, settings] of QUEUES) {
    await put(no, type, settings);
    counts.set(no, { sent: 0, acked: 0, expired: 0 });
  }
  const queueOf = (no: number) => queues.get(no) as ModelQueue;
  const count = (no: number, what: "sent" | "acked" | "expired") => {
    const sums = counts.get(no);
    if (sums) sums[what]++;
  };
  const hot = async (batch: Partial<HotBatch>) => test.engine.hot({ settles: [], claims: [], sends: [], ...batch });
  const cold = async (verb: string, ...args: unknown[]) => (await test.engine.cold({ verb, args, key: null })).result;

  const live = (no: number) => [...messages.values()].filter((m) => m.queueNo === no && m.deadAt === null);
  const bySeq = (list: ModelMessage[]) => list.sort((a, b) => a.seq - b.seq);
  const inFlight = (m: ModelMessage) => m.receipt !== null && m.dueAt > now;
  /** Leased for the last time and lapsed: nobody gets it any more, the sweep takes it. */
  const spentOut = (m: ModelMessage) => m.final && m.dueAt <= now;
  const groupIn = (no: number, group: string | null) => (queueOf(no)?.limit === null ? (group ?? "") : group);

  /** What leaves a message's place by dead-lettering; `numbers` are read back from the engine. */
  const buried: ModelMessage[] = [];
  const bury = (m: ModelMessage, error: string | null, againAt: number): SettleResult => {
    const queue = queueOf(m.queueNo);
    const target = queue.deadLetter === "queue" ? queues.get(queue.deadLetterNo as number) : undefined;
    m.receipt = null;
    m.final = false;
    m.error = error ?? m.error;
    if (queue.deadLetter === "drop") {
      messages.delete(m.origin);
      return { result: "dropped" };
    }
    if (queue.deadLetter === "queue") {
      if (target === undefined) {
        m.error = error ?? NO_TARGET;
        m.dueAt = againAt;
        return { result: "retrying", at: againAt };
      }
      Object.assign(m, {
        sourceNo: m.queueNo,
        queueNo: target.no,
        dueAt: now,
        expiresAt: now + target.retentionMs,
        receives: 0,
        attempts: 0,
      });
      m.group = m.group === "" ? null : m.group;
      buried.push(m);
      return { result: "dead" };
    }
    m.deadAt = now;
    m.expiresAt = now + queue.retentionMs;
    return { result: "dead" };
  };
  /** The new numbers of what moved, ascending beyond all before. */
  const renumber = async (): Promise<void> => {
    for (const m of buried.splice(0)) {
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
      highest = Math.max(highest, seq);
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
      const firstNew = highest + 1;
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
        const dueAt = now + (row.delayMs ?? queue.delayMs);
        if (first !== undefined && first.until > now) {
          assert.deepEqual(result, { seq: first.origin, sentAt: first.sentAt, deduplicated: true, deliverAt: first.dueAt }, "Q11");
          continue;
        }
        assert.ok(result.seq >= firstNew && result.seq > highest - sends.length, "Q3: numbers rise");
        assert.deepEqual({ ...result, seq: 0 }, { seq: 0, sentAt: now, deduplicated: false, deliverAt: dueAt });
        if (row.dedupId !== null && queue.deduplicationWindowMs > 0)
          dedup.set(key, { origin: result.seq, sentAt: now, dueAt, until: now + queue.deduplicationWindowMs });
        highest = Math.max(highest, result.seq);
        count(queue.no, "sent");
        messages.set(result.seq, {
          seq: result.seq,
          origin: result.seq,
          queueNo: queue.no,
          group: row.groupKey,
          sentAt: now,
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
        checkClaim(ask, claim.batches, lateHere);
        adopt(ask, claim.batches.flat(), lateHere);
        checkNext(ask, claim, lateHere.length);
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
      if (chance(0.1)) rows.push({ queueNo: 1, origin: -1, seq: highest + 50, receipt: 2, outcome: "ack" });
      const { settles } = await hot({ settles: rows });
      // In one transaction acknowledgements come first, and a message named twice is settled in the order of the rows.
      const rank = { ack: 0, extend: 1, retry: 2, release: 2, dead: 3 };
      const order = rows.map((row, i) => ({ row, i, round: rows.slice(0, i).filter((other) => other.seq === row.seq).length }));
      order.sort((a, b) => a.round - b.round || rank[a.row.outcome] - rank[b.row.outcome] || a.row.seq - b.row.seq);
      for (const { row, i } of order) assert.deepEqual(settles[i], settleOne(row), `${JSON.stringify(row)} at ${now}`);
      await renumber();
      return settles;
    },

    async sweep() {
      const lapsed = [...messages.values()].filter(spentOut);
      const done = await cold("sweepLapsed", 1000);
      assert.equal(done, lapsed.length, "Q13: the sweep takes what lapsed for the last time");
      for (const m of bySeq(lapsed)) {
        if (m.expiresAt <= now) {
          messages.delete(m.origin);
          count(m.queueNo, "expired");
        } else bury(m, ERROR_OF_LAPSE, now);
      }
      await renumber();
      const expired = [...messages.values()].filter((m) => m.expiresAt <= now && !inFlight(m));
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
      const before = highest;
      for (const m of going) {
        const to = m.deadAt !== null ? no : (m.sourceNo as number);
        m.seq = moved.seqs.find(({ was }) => was === m.seq)?.seq as number;
        assert.ok(m.seq > before);
        highest = Math.max(highest, m.seq);
        Object.assign(m, { queueNo: to, deadAt: null, dueAt: now, expiresAt: now + queueOf(to).retentionMs });
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
        highest = Math.max(highest, upto);
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

  function settleOne(row: SettleRow & { origin: number }): SettleResult {
    const m = messages.get(row.origin);
    if (m === undefined || m.seq !== row.seq || m.queueNo !== row.queueNo) return { result: "gone" };
    if (m.receipt !== row.receipt || m.dueAt <= now) return { result: "stale" };
    const at = now + (row.delayMs ?? 0);
    if (row.outcome === "ack") {
      messages.delete(m.origin);
      count(m.queueNo, "acked");
      return { result: "acked" };
    }
    if (row.outcome === "extend") {
      m.dueAt = at;
      return { result: "extended", at };
    }
    if (m.expiresAt <= now) {
      messages.delete(m.origin);
      count(m.queueNo, "expired");
      return { result: "expired" };
    }
    if (row.outcome === "dead" || (row.outcome === "retry" && m.final))
      return bury(m, row.error ?? null, now + Math.max(row.delayMs ?? 0, queueOf(m.queueNo).visibilityTimeoutMs));
    if (row.outcome === "release") m.attempts--;
    Object.assign(m, { receipt: null, final: false, dueAt: at, error: row.error ?? m.error });
    return { result: row.outcome === "retry" ? "retrying" : "released", at };
  }

  /** The groups of a queue that may be handed out from, with their due members in order. */
  function openGroups(queue: ModelQueue): Map<string, ModelMessage[]> {
    const groups = new Map<string, ModelMessage[]>();
    for (const m of bySeq(live(queue.no))) {
      const group = groupIn(queue.no, m.group);
      if (group !== null) groups.set(group, [...(groups.get(group) ?? []), m]);
    }
    for (const [group, members] of groups) {
      const due = members.filter((m) => m.dueAt <= now && !spentOut(m));
      const flying = members.filter(inFlight).length;
      if (queue.limit === 1 ? members.some((m) => m.receives > 0 && m.dueAt > now) : queue.limit !== null && flying >= queue.limit)
        groups.delete(group);
      else if (due.length === 0) groups.delete(group);
      else groups.set(group, due);
    }
    return groups;
  }

  function checkClaim(
    ask: { queueNo: number; batchSize: number; batches: number },
    batches: StoredMessage[][],
    late: { seq: number }[],
  ): void {
    const queue = queueOf(ask.queueNo);
    const got = batches.flat();
    const where = `${JSON.stringify(ask)} at ${now}: ${JSON.stringify(got.map((m) => [m.seq, m.groupKey]))}`;
    if (queue.paused) {
      assert.equal(got.length + late.length, 0, `Q16 ${where}`);
      return;
    }
    assert.ok(batches.length <= ask.batches && batches.every((batch) => batch.length > 0 && batch.length <= ask.batchSize), where);
    const taken = new Set([...got.map((m) => m.seq), ...late.map((m) => m.seq)]);
    assert.equal(taken.size, got.length + late.length, `a message twice ${where}`);
    const groups = openGroups(queue);
    const loose = live(queue.no)
      .filter((m) => groupIn(queue.no, m.group) === null && m.dueAt <= now && !spentOut(m))
      .sort((a, b) => a.dueAt - b.dueAt || a.seq - b.seq);
    const capacity = ask.batches * ask.batchSize;
    // Who lapsed for the last time may keep a group or its slot until the sweep.
    const sure = [...groups.keys()].filter(
      (group) => queue.limit === null || !live(queue.no).some((m) => m.group === group && spentOut(m)),
    );
    assert.ok(taken.size >= Math.min(capacity, loose.length + sure.length), `too few ${where} of ${loose.length} and ${sure.length}`);
    assert.ok(taken.size <= capacity, where);

    const looseTaken = loose.filter((m) => taken.has(m.seq));
    assert.deepEqual(looseTaken, loose.slice(0, looseTaken.length), `Q9: by the line ${where}`);
    let known = looseTaken.length;
    for (const [group, due] of groups) {
      const mine = due.filter((m) => taken.has(m.seq));
      known += mine.length;
      if (queue.limit !== 1) {
        const flying = live(queue.no).filter((m) => groupIn(queue.no, m.group) === group && inFlight(m)).length;
        if (queue.limit !== null && mine.length > 0)
          assert.ok(flying + mine.length <= queue.limit, `Q19: ${group} over its limit ${where}`);
        continue;
      }
      const skipped = due.filter((m, i) => i < due.indexOf(mine.at(-1) as ModelMessage) && !taken.has(m.seq));
      assert.ok(
        skipped.every((m) => m.expiresAt <= now),
        `Q9: ${group} out of order ${where}`,
      );
      if (mine.length > 1)
        assert.ok(
          mine.every((m) => m.attempts === 0),
          `P10: ${group} not alone ${where}`,
        );
      const inBatches = batches.filter((batch) => batch.some((m) => m.groupKey === group));
      assert.ok(inBatches.length <= 1, `${group} in two batches ${where}`);
      const order = inBatches
        .flat()
        .filter((m) => m.groupKey === group)
        .map((m) => m.seq);
      assert.deepEqual(
        order,
        [...order].sort((a, b) => a - b),
        `Q9 ${where}`,
      );
    }
    assert.equal(known, taken.size, `Q9: not ready, or of a group that is busy ${where}`);
    for (const m of got) assert.ok(m.expiresAt > now, `Q18 ${where}`);
  }

  function adopt(ask: { queueNo: number; leaseMs: number | null }, got: StoredMessage[], late: { seq: number; receipt: number }[]): void {
    const queue = queueOf(ask.queueNo);
    const until = now + (ask.leaseMs ?? queue.visibilityTimeoutMs);
    for (const lease of [...got, ...late]) {
      const m = [...messages.values()].find((each) => each.seq === lease.seq) as ModelMessage;
      m.receives++;
      m.attempts++;
      m.receipt = lease.receipt;
      m.dueAt = until;
      m.final = m.attempts >= (queue.maxAttempts ?? Number.POSITIVE_INFINITY);
    }
    for (const lease of got) {
      const m = [...messages.values()].find((each) => each.seq === lease.seq) as ModelMessage;
      const { receives, attempts, sentAt, expiresAt, origin } = m;
      assert.deepEqual(
        { receives, attempts, sentAt, expiresAt, origin, leaseUntil: until, groupKey: m.group === "" ? null : m.group },
        {
          receives: lease.receives,
          attempts: lease.attempts,
          sentAt: lease.sentAt,
          expiresAt: lease.expiresAt,
          origin: lease.origin,
          leaseUntil: lease.leaseUntil,
          groupKey: lease.groupKey,
        },
      );
      held.push({ queueNo: m.queueNo, origin: m.origin, seq: m.seq, receipt: lease.receipt });
    }
    if (held.length > 60) held.splice(0, held.length - 60);
  }

  /** A claim that was not filled must not promise less than it knows, nor more. */
  function checkNext(
    ask: { queueNo: number; batchSize: number; batches: number },
    claim: { batches: StoredMessage[][]; nextInMs: number | null },
    late: number,
  ) {
    const queue = queueOf(ask.queueNo);
    if (claim.batches.flat().length === ask.batches * ask.batchSize || queue.paused) return assert.equal(claim.nextInMs, null);
    // A last lease in an ordered group keeps the group until a settle or a sweep, which both tell.
    const kept = (m: ModelMessage) => live(queue.no).some((o) => o.final && queue.limit === 1 && o.group !== null && o.group === m.group);
    const next = Math.min(
      ...live(queue.no)
        .filter((m) => !m.final && m.dueAt > now && !kept(m))
        .map((m) => m.dueAt),
    );
    if (late > 0) return assert.equal(claim.nextInMs, 0);
    if (claim.nextInMs === null) return assert.equal(next, Number.POSITIVE_INFINITY, "something will be ready and nobody would look");
    const inGroups = live(queue.no).some((m) => groupIn(queue.no, m.group) !== null);
    if (!inGroups) assert.equal(claim.nextInMs, next - now);
    else assert.ok(claim.nextInMs > 0 || openGroups(queue).size > 0, `nothing is ready at ${now}, yet the answer is now`);
  }

  async function checkState(after: string): Promise<void> {
    const { rows, sums } = await test.db.transaction(async (tx) => ({
      rows: await tx.query<Record<string, number | string | null>>(
        `SELECT seq, origin, queue_no, group_key, sent_at, due_at, expires_at, receives, attempts, receipt, final_at, dead_at, source_no,
         last_error, line_at, later_at, length(body) AS bytes FROM message ORDER BY seq`,
      ),
      sums: await tx.query<Record<string, number>>(
        `SELECT queue_no, sum(live) AS live, sum(dead) AS dead, sum(bytes) AS bytes, sum(sent) AS sent, sum(acked) AS acked,
         sum(expired) AS expired FROM tally GROUP BY queue_no`,
      ),
    }));
    const stored = rows.map((r) => ({
      seq: r.seq,
      origin: r.origin,
      queueNo: r.queue_no,
      group: r.group_key === "" ? null : r.group_key,
      sentAt: r.sent_at,
      dueAt: r.dead_at === null ? r.due_at : null,
      expiresAt: r.expires_at,
      receives: r.receives,
      attempts: r.attempts,
      receipt: r.receipt,
      final: r.final_at !== null,
      deadAt: r.dead_at,
      sourceNo: r.source_no,
      error: r.last_error,
    }));
    const modelled = bySeq([...messages.values()]).map((m) => ({
      ...m,
      group: m.group === "" ? null : m.group,
      dueAt: m.deadAt === null ? m.dueAt : null,
    }));
    assert.deepEqual(stored, modelled, `state after ${after}`);

    const heads = new Map<string, (typeof rows)[number]>();
    for (const r of rows) {
      const label = `${after}: ${JSON.stringify(r)} at ${now}`;
      const queue = queues.get(r.queue_no as number);
      if (queue === undefined) continue;
      if (r.dead_at !== null) assert.deepEqual([r.line_at, r.later_at], [null, null], `a dead one stands in line ${label}`);
      else if (r.group_key === null) assert.equal(r.line_at, r.final_at === null ? r.due_at : NEVER, `outside of groups ${label}`);
      else if (r.later_at !== null) {
        assert.equal(r.line_at, null, `away and in line ${label}`);
        assert.equal(r.later_at, r.final_at === null ? r.due_at : NEVER, label);
      } else {
        const key = `${r.queue_no} ${r.group_key}`;
        const flying = rows.filter(
          (o) => o.queue_no === r.queue_no && o.group_key === r.group_key && o.receipt !== null && (o.due_at as number) > now,
        );
        if (heads.has(key)) assert.equal(r.line_at, null, `a second head ${label}`);
        else if (r.final_at !== null) assert.ok(r.line_at === null || r.line_at === NEVER, `a last lease in line ${label}`);
        else if (queue.limit === 1) assert.notEqual(r.line_at, null, `a head out of line ${label}`);
        else if (queue.limit === null) assert.notEqual(r.line_at, null, `a head out of line ${label}`);
        // A slot freed by a lapse is given away by the next claim, which lets the lapsed one in.
        else if (flying.length >= queue.limit) assert.equal(r.line_at, null, `a head over its limit ${label}`);
        heads.set(key, heads.get(key) ?? r);
      }
    }
    for (const no of queues.keys()) {
      const own = [...messages.values()].filter((m) => m.queueNo === no);
      const sum = sums.find((row) => row.queue_no === no) ?? { live: 0, dead: 0, bytes: 0, sent: 0, acked: 0, expired: 0 };
      const bytes = rows.filter((r) => r.queue_no === no).reduce((all, r) => all + (r.bytes as number), 0);
      const dead = own.filter((m) => m.deadAt !== null).length;
      assert.deepEqual(
        { live: sum.live, dead: sum.dead, bytes: sum.bytes, ...counts.get(no) },
        { live: own.length - dead, dead, bytes, sent: sum.sent, acked: sum.acked, expired: sum.expired },
        `Q4: the counts of queue ${no} after ${after}`,
      );
    }
  }

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
    now += pick([0, 1, 5, 50, 300, 1_000, 3_000]);
    test.time.now = now;
    const name = pick(names);
    const answer = await (operation[name] as () => Promise<unknown>)();
    const told = JSON.stringify(answer, (key, value) => (key === "seq" || key === "was" ? nameOf(value as number) : value));
    transcript.push(`${i} ${name} ${told}`);
    if (i % 3 === 0) await checkState(`operation ${i} (${name}, seed ${seed})`);
  }
  await checkState("the end");
  return transcript;
}
