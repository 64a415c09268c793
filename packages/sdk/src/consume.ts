/**
 * A worker that pulls (C13). It receives no more than it can handle, keeps the leases of what it holds, settles every message by what
 * its handler did, and gives back what it did not begin. Messages of one group run in order, and one that fails stops those behind it.
 */
import { type Acknowledger, createAcknowledger } from "./acknowledge.ts";
import { type Duration, toSeconds } from "./duration.ts";
import { MillraceError } from "./errors.ts";
import type { MessageHandler } from "./handler.ts";
import { keepLease, type Lease } from "./lease.ts";
import type { MessageMeta } from "./meta.ts";
import { outcomeOf } from "./outcome.ts";
import { leaseIsLost, leaseMs, maxLeaseSeconds, maxWaitSeconds, type NackOptions, type Pull } from "./pull.ts";
import type { WireMessage } from "./records.ts";
import type { Runtime } from "./runtime.ts";
import { messageOf } from "./text.ts";
import { retryDelayMs } from "./transport.ts";

/** Where an error came up, and with which message. */
export interface ConsumeErrorContext {
  during: "receive" | "handle" | "settle" | "lease";
  message: MessageMeta | undefined;
}

/** How a worker works. */
export interface ConsumeOptions {
  /** The most messages of one receive, 1 to 100; `concurrency` unless given, at most 10. */
  maxMessages?: number;
  /** How long a receive waits for the first message, up to 20 s; 20 s unless given, with `stopWhenEmpty` none. */
  wait?: Duration;
  /** Handlers at the same time; 10 unless given. */
  concurrency?: number;
  /** The lease of each message, extended while its handler works; the queue's own visibility timeout unless given. */
  visibilityTimeout?: Duration;
  /** Stops the worker: what was begun is finished and settled, what was not begun is given back. */
  signal?: AbortSignal;
  /** Stops when a receive answers nothing and nothing is being handled. */
  stopWhenEmpty?: boolean;
  /** Told of every error; written to the console unless given. What it throws is ignored. */
  onError?: (error: unknown, context: ConsumeErrorContext) => void;
}

/** What a worker did until it stopped. */
export interface ConsumeSummary {
  /** Messages whose handler returned. */
  handled: number;
  /** Messages that were given back or went to the dead letters. */
  failed: number;
}

/** When a record does not say how long its lease is. */
const assumedLeaseMs = 30_000;
/** An empty answer that came faster than this is followed by a pause: a paused queue answers at once. */
const emptyPauseMs = 1000;

interface Held {
  message: WireMessage;
  meta: MessageMeta;
  lease: Lease;
}

function bounded(field: string, value: number | undefined, fallback: number, max: number): number {
  if (value === undefined) return fallback;
  if (!Number.isInteger(value) || value < 1 || value > max)
    throw new RangeError(`${field}: must be a whole number from 1 to ${max}, got ${value}`);
  return value;
}

/** Works until it is stopped. Rejects, after what was begun is settled, with an error that waiting cannot mend. */
export async function consume<T>(
  pull: Pull<T>,
  handle: MessageHandler<T>,
  options: ConsumeOptions,
  runtime: Runtime,
): Promise<ConsumeSummary> {
  const concurrency = bounded("concurrency", options.concurrency, 10, 1000);
  const maxMessages = bounded("maxMessages", options.maxMessages, Math.min(concurrency, 10), 100);
  const waitSeconds = toSeconds("wait", options.wait ?? (options.stopWhenEmpty ? 0 : maxWaitSeconds), 0, maxWaitSeconds);
  const visibilitySeconds =
    options.visibilityTimeout === undefined ? undefined : toSeconds("visibilityTimeout", options.visibilityTimeout, 1, maxLeaseSeconds);
  const { signal } = options;
  const summary: ConsumeSummary = { handled: 0, failed: 0 };
  const running = new Set<Promise<void>>();
  let held = 0;

  const report = (error: unknown, during: ConsumeErrorContext["during"], message?: MessageMeta): void => {
    try {
      if (options.onError !== undefined) options.onError(error, { during, message });
      else console.error(`consume, ${during}${message === undefined ? "" : ` of ${message.messageId}`}: ${messageOf(error)}`);
    } catch {
      // a reporter that fails must not take the worker with it
    }
  };
  const metas = new Map<WireMessage, MessageMeta>();
  const acknowledger: Acknowledger = createAcknowledger(pull.ack, (error, message) => report(error, "settle", metas.get(message)));

  const take = (message: WireMessage): Held => {
    const lengthMs = visibilitySeconds === undefined ? (leaseMs(message) ?? assumedLeaseMs) : visibilitySeconds * 1000;
    const lease = keepLease(
      message.id,
      lengthMs,
      (seconds) => pull.extend(message, seconds),
      runtime,
      (error) => report(error, "lease", meta),
    );
    const meta = pull.meta(message, lease.signal);
    metas.set(message, meta);
    return { message, meta, lease };
  };

  const giveBack = async ({ message, meta, lease }: Held, how: NackOptions): Promise<void> => {
    lease.release();
    try {
      if (!lease.signal.aborted) await pull.nack(message, how);
    } catch (error) {
      report(error, leaseIsLost(error) ? "lease" : "settle", meta);
    }
  };

  /** Handles and settles one message; answers whether the next of its group may run. */
  const work = async (one: Held): Promise<boolean> => {
    const { message, meta, lease } = one;
    try {
      await handle(await pull.open(message), meta);
    } catch (thrown) {
      summary.failed += 1;
      const outcome = outcomeOf(thrown);
      if (outcome.kind === "defer") await giveBack(one, { delay: outcome.delaySeconds, countAttempt: false });
      else {
        report(thrown, "handle", meta);
        if (outcome.kind === "dead-letter") await giveBack(one, { deadLetter: true, error: outcome.reason });
        else await giveBack(one, outcome.kind === "retry" ? { error: outcome.error } : {});
      }
      return outcome.kind === "dead-letter";
    }
    summary.handled += 1;
    lease.release();
    // Of a lost lease the loss was told already, and an acknowledgement could only fail.
    if (!lease.signal.aborted) await acknowledger.add(message);
    return true;
  };

  const workInOrder = async (line: readonly Held[]): Promise<void> => {
    let goOn = true;
    for (const one of line) {
      if (goOn && signal?.aborted !== true) goOn = await work(one);
      else await giveBack(one, { delay: 0, countAttempt: false });
      metas.delete(one.message);
      held -= 1;
    }
  };

  const start = (messages: readonly WireMessage[]): void => {
    const lines = new Map<string | WireMessage, Held[]>();
    for (const message of messages) {
      const line = lines.get(message.groupKey ?? message);
      if (line === undefined) lines.set(message.groupKey ?? message, [take(message)]);
      else line.push(take(message));
    }
    held += messages.length;
    for (const line of lines.values()) {
      const job: Promise<void> = workInOrder(line).finally(() => running.delete(job));
      running.add(job);
    }
  };

  let failure: unknown;
  for (let failures = 0; signal?.aborted !== true; ) {
    const free = Math.min(maxMessages, concurrency - held);
    if (free <= 0) {
      await Promise.race(running);
      continue;
    }
    const askedAt = runtime.now();
    let messages: WireMessage[];
    try {
      messages = await pull.receive({ maxMessages: free, waitSeconds, visibilitySeconds, signal });
      failures = 0;
    } catch (error) {
      if (signal?.aborted) break;
      if (!(error instanceof MillraceError) || !error.retryable) {
        failure = error;
        break;
      }
      report(error, "receive");
      failures += 1;
      await runtime.wait(retryDelayMs(failures, runtime.random()), signal);
      continue;
    }
    start(messages);
    if (messages.length > 0) continue;
    if (options.stopWhenEmpty === true) {
      if (running.size === 0) break;
      await Promise.race(running);
    } else await runtime.wait(emptyPauseMs - (runtime.now() - askedAt), signal);
  }
  await Promise.all(running);
  if (failure !== undefined) throw failure;
  return summary;
}
