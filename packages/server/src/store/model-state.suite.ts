/**
 * The obvious store: every message in a map, every rule of queues.md as a plain loop. Time and the highest number drawn are set from
 * outside; numbers and receipts, which are each engine's own affair, are taken over from its answers.
 */
import type { QueueSettings, SettleResult, SettleRow } from "./types.ts";

export interface ModelMessage {
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
export type ModelQueue = QueueSettings & { no: number; type: "standard" | "fifo"; limit: number | null };

const NO_TARGET = "the dead-letter queue does not exist";

export const bySeq = (list: ModelMessage[]): ModelMessage[] => list.sort((a, b) => a.seq - b.seq);

/** An empty store at the instant `from`. */
export function createModel(from: number) {
  const queues = new Map<number, ModelQueue>();
  const messages = new Map<number, ModelMessage>();
  const counts = new Map<number, { sent: number; acked: number; expired: number }>();
  const moved: ModelMessage[] = [];

  const queueOf = (no: number): ModelQueue => queues.get(no) as ModelQueue;
  const count = (no: number, what: "sent" | "acked" | "expired"): void => {
    const sums = counts.get(no);
    if (sums) sums[what]++;
  };
  const live = (no: number): ModelMessage[] => [...messages.values()].filter((m) => m.queueNo === no && m.deadAt === null);
  const inFlight = (m: ModelMessage): boolean => m.receipt !== null && m.dueAt > model.now;
  /** Leased for the last time and lapsed: nobody gets it any more, the sweep takes it. */
  const spentOut = (m: ModelMessage): boolean => m.final && m.dueAt <= model.now;
  const groupIn = (no: number, group: string | null): string | null => (queueOf(no)?.limit === null ? (group ?? "") : group);
  /** What leaves a message's place by dead-lettering; what moves waits in `moved` for the number it gets. */
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
        dueAt: model.now,
        expiresAt: model.now + target.retentionMs,
        receives: 0,
        attempts: 0,
      });
      m.group = m.group === "" ? null : m.group;
      moved.push(m);
      return { result: "dead" };
    }
    m.deadAt = model.now;
    m.expiresAt = model.now + queue.retentionMs;
    return { result: "dead" };
  };
  const settle = (row: SettleRow & { origin: number }): SettleResult => {
    const m = messages.get(row.origin);
    if (m === undefined || m.seq !== row.seq || m.queueNo !== row.queueNo) return { result: "gone" };
    if (m.receipt !== row.receipt || m.dueAt <= model.now) return { result: "stale" };
    const at = model.now + (row.delayMs ?? 0);
    if (row.outcome === "ack") {
      messages.delete(m.origin);
      count(m.queueNo, "acked");
      return { result: "acked" };
    }
    if (row.outcome === "extend") {
      m.dueAt = at;
      return { result: "extended", at };
    }
    if (m.expiresAt <= model.now) {
      messages.delete(m.origin);
      count(m.queueNo, "expired");
      return { result: "expired" };
    }
    if (row.outcome === "dead" || (row.outcome === "retry" && m.final))
      return bury(m, row.error ?? null, model.now + Math.max(row.delayMs ?? 0, queueOf(m.queueNo).visibilityTimeoutMs));
    if (row.outcome === "release") m.attempts--;
    Object.assign(m, { receipt: null, final: false, dueAt: at, error: row.error ?? m.error });
    return { result: row.outcome === "retry" ? "retrying" : "released", at };
  };

  /** The groups of a queue that may be handed out from, with their due members in order. */
  const openGroups = (queue: ModelQueue): Map<string, ModelMessage[]> => {
    const groups = new Map<string, ModelMessage[]>();
    for (const m of bySeq(live(queue.no))) {
      const group = groupIn(queue.no, m.group);
      if (group !== null) groups.set(group, [...(groups.get(group) ?? []), m]);
    }
    for (const [group, members] of groups) {
      const due = members.filter((m) => m.dueAt <= model.now && !spentOut(m));
      const flying = members.filter(inFlight).length;
      if (queue.limit === 1 ? members.some((m) => m.receives > 0 && m.dueAt > model.now) : queue.limit !== null && flying >= queue.limit)
        groups.delete(group);
      else if (due.length === 0) groups.delete(group);
      else groups.set(group, due);
    }
    return groups;
  };

  const model = {
    now: from,
    highest: 0,
    queues,
    messages,
    counts,
    moved,
    /** Remembered deduplication ids by queue and id. */
    dedup: new Map<string, { origin: number; sentAt: number; dueAt: number; until: number }>(),
    /** Leases that clients may still settle. */
    held: [] as { queueNo: number; origin: number; seq: number; receipt: number }[],
    queueOf,
    count,
    live,
    inFlight,
    spentOut,
    groupIn,
    bury,
    settle,
    openGroups,
  };
  return model;
}

export type Model = ReturnType<typeof createModel>;
