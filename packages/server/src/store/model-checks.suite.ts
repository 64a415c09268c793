/**
 * What an engine answered and stores, held against the model. Where rules leave a choice, such as which of several ready messages a claim
 * takes, the answer is checked against the rules and taken over.
 */
import assert from "node:assert/strict";
import type { StoredMessage } from "./claim.ts";
import type { TestEngine } from "./engines.suite.ts";
import { WHOLE_EVERY_MS } from "./front.ts";
import { bySeq, type Model, type ModelMessage } from "./model-state.suite.ts";
import { NEVER } from "./queue-memory.ts";

export function checkClaim(
  model: Model,
  ask: { queueNo: number; batchSize: number; batches: number },
  batches: StoredMessage[][],
  late: { seq: number }[],
): void {
  const queue = model.queueOf(ask.queueNo);
  const got = batches.flat();
  const where = `${JSON.stringify(ask)} at ${model.now}: ${JSON.stringify(got.map((m) => [m.seq, m.groupKey]))}`;
  if (queue.paused) {
    assert.equal(got.length + late.length, 0, `Q16 ${where}`);
    return;
  }
  assert.ok(batches.length <= ask.batches && batches.every((batch) => batch.length > 0 && batch.length <= ask.batchSize), where);
  const taken = new Set([...got.map((m) => m.seq), ...late.map((m) => m.seq)]);
  assert.equal(taken.size, got.length + late.length, `a message twice ${where}`);
  const groups = model.openGroups(queue);
  const loose = model
    .live(queue.no)
    .filter((m) => model.groupIn(queue.no, m.group) === null && m.dueAt <= model.now && !model.spentOut(m))
    .sort((a, b) => a.dueAt - b.dueAt || a.seq - b.seq);
  const capacity = ask.batches * ask.batchSize;
  // Who lapsed for the last time may keep a group or its slot until the sweep.
  const sure = [...groups.keys()].filter(
    (group) => queue.limit === null || !model.live(queue.no).some((m) => m.group === group && model.spentOut(m)),
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
      const flying = model.live(queue.no).filter((m) => model.groupIn(queue.no, m.group) === group && model.inFlight(m)).length;
      if (queue.limit !== null && mine.length > 0) assert.ok(flying + mine.length <= queue.limit, `Q19: ${group} over its limit ${where}`);
      continue;
    }
    const skipped = due.filter((m, i) => i < due.indexOf(mine.at(-1) as ModelMessage) && !taken.has(m.seq));
    assert.ok(
      skipped.every((m) => m.expiresAt <= model.now),
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
  for (const m of got) assert.ok(m.expiresAt > model.now, `Q18 ${where}`);
}

export function adopt(
  model: Model,
  ask: { queueNo: number; leaseMs: number | null },
  got: StoredMessage[],
  late: { seq: number; receipt: number }[],
): void {
  const queue = model.queueOf(ask.queueNo);
  const until = model.now + (ask.leaseMs ?? queue.visibilityTimeoutMs);
  for (const lease of [...got, ...late]) {
    const m = [...model.messages.values()].find((each) => each.seq === lease.seq) as ModelMessage;
    m.receives++;
    m.attempts++;
    m.receipt = lease.receipt;
    m.dueAt = until;
    m.final = m.attempts >= (queue.maxAttempts ?? Number.POSITIVE_INFINITY);
  }
  for (const lease of got) {
    const m = [...model.messages.values()].find((each) => each.seq === lease.seq) as ModelMessage;
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
    model.held.push({ queueNo: m.queueNo, origin: m.origin, seq: m.seq, receipt: lease.receipt });
  }
  if (model.held.length > 60) model.held.splice(0, model.held.length - 60);
}

/** A claim that was not filled must not promise less than it knows, nor more. */
export function checkNext(
  model: Model,
  ask: { queueNo: number; batchSize: number; batches: number },
  claim: { batches: StoredMessage[][]; nextInMs: number | null },
  late: number,
  littered: boolean,
) {
  const queue = model.queueOf(ask.queueNo);
  if (claim.batches.flat().length === ask.batches * ask.batchSize || queue.paused) return assert.equal(claim.nextInMs, null);
  // A last lease in an ordered group keeps the group until a settle or a sweep, which both tell.
  const kept = (m: ModelMessage) =>
    model.live(queue.no).some((o) => o.final && queue.limit === 1 && o.group !== null && o.group === m.group);
  const next = Math.min(
    ...model
      .live(queue.no)
      .filter((m) => !m.final && m.dueAt > model.now && !kept(m))
      .map((m) => m.dueAt),
  );
  if (late > 0) return assert.equal(claim.nextInMs, 0);
  // Who reads a part of the line also says when all of it is read again.
  if (littered && claim.nextInMs !== null && claim.nextInMs < next - model.now) {
    return assert.ok(claim.nextInMs > 0 && claim.nextInMs <= WHOLE_EVERY_MS);
  }
  if (claim.nextInMs === null) return assert.equal(next, Number.POSITIVE_INFINITY, "something will be ready and nobody would look");
  const inGroups = model.live(queue.no).some((m) => model.groupIn(queue.no, m.group) !== null);
  if (!inGroups) assert.equal(claim.nextInMs, next - model.now);
  else assert.ok(claim.nextInMs > 0 || model.openGroups(queue).size > 0, `nothing is ready at ${model.now}, yet the answer is now`);
}

export async function checkState(test: TestEngine, model: Model, after: string): Promise<void> {
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
  const modelled = bySeq([...model.messages.values()]).map((m) => ({
    ...m,
    group: m.group === "" ? null : m.group,
    dueAt: m.deadAt === null ? m.dueAt : null,
  }));
  assert.deepEqual(stored, modelled, `state after ${after}`);

  const heads = new Map<string, (typeof rows)[number]>();
  for (const r of rows) {
    const label = `${after}: ${JSON.stringify(r)} at ${model.now}`;
    const queue = model.queues.get(r.queue_no as number);
    if (queue === undefined) continue;
    if (r.dead_at !== null) assert.deepEqual([r.line_at, r.later_at], [null, null], `a dead one stands in line ${label}`);
    else if (r.group_key === null) assert.equal(r.line_at, r.final_at === null ? r.due_at : NEVER, `outside of groups ${label}`);
    else if (r.later_at !== null) {
      assert.equal(r.line_at, null, `away and in line ${label}`);
      assert.equal(r.later_at, r.final_at === null ? r.due_at : NEVER, label);
    } else {
      const key = `${r.queue_no} ${r.group_key}`;
      const flying = rows.filter(
        (o) => o.queue_no === r.queue_no && o.group_key === r.group_key && o.receipt !== null && (o.due_at as number) > model.now,
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
  for (const no of model.queues.keys()) {
    const own = [...model.messages.values()].filter((m) => m.queueNo === no);
    const sum = sums.find((row) => row.queue_no === no) ?? { live: 0, dead: 0, bytes: 0, sent: 0, acked: 0, expired: 0 };
    const bytes = rows.filter((r) => r.queue_no === no).reduce((all, r) => all + (r.bytes as number), 0);
    const dead = own.filter((m) => m.deadAt !== null).length;
    assert.deepEqual(
      { live: sum.live, dead: sum.dead, bytes: sum.bytes, ...model.counts.get(no) },
      { live: own.length - dead, dead, bytes, sent: sum.sent, acked: sum.acked, expired: sum.expired },
      `Q4: the counts of queue ${no} after ${after}`,
    );
  }
}

/** Q4, Q19: of a limited group as many are ready as may still be leased, the first by number; where there is no limit all that are due. */
export async function checkLooks(cold: (verb: string, ...args: unknown[]) => Promise<unknown>, model: Model, after: string): Promise<void> {
  for (const queue of model.queues.values()) {
    if (queue.limit === 1) continue;
    const expected = new Map<number, string>();
    const free = new Map<string, number>();
    const members = bySeq(model.live(queue.no));
    const limit = queue.limit ?? Number.POSITIVE_INFINITY;
    for (const { group, ...m } of members)
      if (group !== null && m.receipt !== null && m.dueAt > model.now) free.set(group, (free.get(group) ?? limit) - 1);
    for (const m of members) {
      const left = m.group === null ? 1 : (free.get(m.group) ?? limit);
      if (m.dueAt > model.now) expected.set(m.seq, model.inFlight(m) ? "inflight" : "scheduled");
      else {
        expected.set(m.seq, left > 0 ? "ready" : "waiting");
        if (m.group !== null) free.set(m.group, left - 1);
      }
    }
    const page = { state: null, after: null, limit: 10_000, bodyBytes: 1 };
    const { messages } = (await cold("peekMessages", queue.no, page)) as { messages: { seq: number; state: string }[] };
    const alive = messages.filter(({ state }) => state !== "dead");
    const looked = alive.map(({ seq, state }) => [seq, state]);
    assert.deepEqual(looked, [...expected], `Q19: what a peek at queue ${queue.no} shows after ${after}`);
    const stats = (await cold("stats", queue.no)) as Record<string, number>;
    for (const state of ["ready", "waiting", "inflight", "scheduled"])
      assert.equal(
        stats[state],
        alive.filter((m) => m.state === state).length,
        `Q4: how many of queue ${queue.no} are ${state} after ${after}`,
      );
  }
}
