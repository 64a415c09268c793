/**
 * A run's journal in memory, kept as a server keeps it: for tests without one. Time stands still unless `wake` moves it on to the next
 * thing that happens. Invariant: a finished step never changes, and gets its place when the code is first told of it.
 */
import type { JournalStep, StepRecord } from "@millrace/contract/wire";
import { recordOf } from "./errors.ts";
import type { WorkflowMessage } from "./step.ts";
import { decodeValue, encodeValue } from "./value.ts";

/** Time that a test moves. Milliseconds since 1970. */
export interface TestClock {
  now(): number;
  advance(ms: number): void;
}

/** A message for a run that waits. */
export interface TestMessage {
  queueId: string;
  key: string;
  body: string;
  attributes?: Record<string, string>;
  /** Comes that many milliseconds after the start, to a run that waits then; unless given it comes to the first wait that it fits. */
  afterMs?: number;
}

/** What a journal in memory needs to know. */
export interface MemoryOptions {
  clock: TestClock;
  messages: readonly TestMessage[];
  /** What runs of other workflows answer, by the workflow's name. */
  runs: Readonly<Record<string, (input: unknown) => unknown>>;
  /** When the run is cancelled, in milliseconds after the start. */
  cancelAfterMs?: number;
  /** How long the run may take, in milliseconds. */
  timeoutMs?: number;
  uuid(): string;
}

/** A message that nobody got yet; `at`: when it comes. */
interface Unread {
  message: TestMessage;
  at: number;
}

/** A journal. */
export interface Memory {
  /** The steps as a task shows them. */
  load(): JournalStep[];
  /** Keeps what an execution made; answers the pending steps among it as they stand now. */
  record(records: readonly StepRecord[]): JournalStep[];
  /** Keeps what came with an execution's answer: its code is told of nothing any more. */
  keep(records: readonly StepRecord[]): void;
  /** Lets happen what the run waits for, moving time on if need be; `false` when nothing ever will, or the run's time is over before. */
  wake(): Promise<boolean>;
  readonly cancelled: boolean;
  readonly timedOut: boolean;
}

const later = Number.POSITIVE_INFINITY;

/** Makes an empty journal. */
export function createMemory({ clock, messages, runs, cancelAfterMs = later, timeoutMs = later, uuid }: MemoryOptions): Memory {
  const startedAt = clock.now();
  const steps = new Map<string, JournalStep>();
  const children = new Map<string, { workflow: string; input: unknown }>();
  const waits = new Map<string, { queueId: string; key: string; since: number; lookbackMs: number }>();
  const unread: Unread[] = messages.map((message) => ({ message, at: startedAt + (message.afterMs ?? 0) }));
  let order = 0;
  let cancelled = false;
  let timedOut = false;

  const isOpen = ({ status }: JournalStep): boolean => status === "pending" || status === "retrying";
  const open = () => [...steps.values()].filter(isOpen);
  const show = (step: JournalStep): JournalStep => {
    if (!isOpen(step)) step.order ??= ++order;
    return { ...step };
  };

  const begin = (record: StepRecord): JournalStep => {
    if (record.type === "value") return { id: record.id, type: "value", status: "completed", result: record.result };
    if (record.status !== "pending") {
      const { id, type, status, attempt } = record;
      if (record.status === "completed") return { id, type, status, attempt, result: record.result };
      if (record.status === "failed") return { id, type, status, attempt, error: record.error };
      return { id, type, status, attempt, error: record.error, retryAt: clock.now() + record.delayMs };
    }
    const { id, type } = record;
    if (cancelled) return { id, type, status: "cancelled" };
    switch (record.type) {
      case "sleep":
        return { id, type, status: "pending", until: record.until ?? clock.now() + (record.forMs ?? 0) };
      case "wait":
        waits.set(id, { queueId: record.queueId, key: record.key, since: clock.now(), lookbackMs: record.lookbackMs ?? 0 });
        return { id, type, status: "pending", until: clock.now() + record.timeoutMs };
      case "child": {
        const runId = record.runId ?? uuid();
        if (runs[record.workflow] === undefined) {
          const message = `testWorkflow was given no run of ${record.workflow}: add it to runs`;
          return { id, type, status: "failed", error: { code: "workflow_not_found", name: "Error", message } };
        }
        if (!record.wait) return { id, type, status: "completed", runId, result: JSON.stringify({ runId }) };
        children.set(id, { workflow: record.workflow, input: decodeValue(record.input) });
        return { id, type, status: "pending", runId };
      }
    }
  };

  const endChild = async (step: JournalStep): Promise<void> => {
    const child = children.get(step.id);
    try {
      const output = await runs[child?.workflow ?? ""]?.(child?.input);
      Object.assign(step, { status: "completed", result: encodeValue(output, "the output", 4 * 1024 * 1024) });
    } catch (error) {
      Object.assign(step, { status: "failed", error: recordOf(error) });
    }
  };

  /** Whether a message is one that a step waits for, or looks back to. */
  const fits = (step: JournalStep, { message, at }: Unread, looksBack: boolean): boolean => {
    const wait = waits.get(step.id);
    if (wait === undefined || message.queueId !== wait.queueId || message.key !== wait.key) return false;
    return message.afterMs === undefined || (at <= clock.now() && at >= wait.since - (looksBack ? wait.lookbackMs : 0));
  };

  /** Gives a waiting step the message that is there for it, and the same to whoever else waited when it came. */
  const receive = (step: JournalStep): boolean => {
    const index = unread.findIndex((each) => fits(step, each, true));
    const [found] = index < 0 ? [] : unread.splice(index, 1);
    if (found === undefined) return false;
    const { body, attributes = {}, queueId, afterMs } = found.message;
    const message: WorkflowMessage = { messageId: uuid(), body, attributes, sentAt: new Date(found.at).toISOString(), queueId };
    const others = afterMs === undefined ? [] : open().filter((other) => other.type === "wait" && fits(other, found, false));
    for (const each of [step, ...others]) Object.assign(each, { status: "completed", result: JSON.stringify(message) });
    return true;
  };

  const keep = (record: StepRecord): JournalStep => {
    const known = steps.get(record.id);
    if (known !== undefined && known.status !== "retrying") return known;
    const step = begin(record);
    steps.set(record.id, step);
    if (step.type === "wait" && isOpen(step)) receive(step);
    return step;
  };

  /** Lets happen what happens now; answers whether anything did. */
  const happen = async (): Promise<boolean> => {
    const now = clock.now();
    let happened = false;
    if (!cancelled && now >= startedAt + cancelAfterMs) {
      cancelled = true;
      happened = true;
      for (const step of open()) if (step.status === "pending") step.status = "cancelled";
    }
    for (const step of open()) {
      if (step.type === "child") await endChild(step);
      else if (step.type === "wait" && receive(step)) happened = true;
      else if (step.status === "retrying" && (step.retryAt ?? 0) <= now) happened = true;
      else if (step.status === "pending" && (step.until ?? later) <= now) {
        Object.assign(step, { status: "completed", ...(step.type === "wait" ? { result: "null" } : {}) });
      } else continue;
      happened = true;
    }
    return happened;
  };

  return {
    load: () => [...steps.values()].map(show),
    record(records) {
      const shown = records.map((record) => show(keep(record)));
      return shown.filter((_, index) => records[index]?.status === "pending");
    },
    keep(records) {
      for (const record of records) keep(record);
    },
    async wake() {
      const untold = [...steps.values()].some((step) => !isOpen(step) && step.order === undefined);
      if (untold || (await happen())) return true;
      const arrivals = unread.map(({ at }) => at).filter((at) => at > clock.now());
      const dues = open().map(({ until, retryAt }) => until ?? retryAt ?? later);
      const next = Math.min(...arrivals, ...dues, cancelled ? later : startedAt + cancelAfterMs);
      if (next === later || open().length === 0) return false;
      timedOut = next >= startedAt + timeoutMs;
      if (timedOut) {
        clock.advance(Math.max(0, startedAt + timeoutMs - clock.now()));
        for (const step of open()) step.status = "cancelled";
        return false;
      }
      clock.advance(Math.max(0, next - clock.now()));
      // A message that nobody waits for may have come: then time goes on.
      return (await happen()) || this.wake();
    },
    get cancelled() {
      return cancelled;
    },
    get timedOut() {
      return timedOut;
    },
  };
}
