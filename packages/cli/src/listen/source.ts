/**
 * One queue whose messages go to a local port: leases only while the port is open, forwards a bounded number at once, those of a group
 * one at a time, and settles each by its answer. It ends when its signal aborts: what is leased by then is still settled.
 */
import { setTimeout as wait } from "node:timers/promises";
import type { SigningKey } from "@millrace/contract/wire";
import { ApiError, type Client } from "../client.ts";
import { CliError, exitCode } from "../exit.ts";
import { type Forwarded, forward, isOpen, type Leased } from "./forward.ts";

/** What is told about a queue while it is listened to. */
export interface Told {
  /** Messages flow from now on: server, rights and port were all proven. */
  connected(queue: string, url: string): void;
  /** Nothing is taken until `reason` ends. */
  holding(queue: string, reason: string): void;
  /** The answer could not be handed to the server: the message comes again once its lease ends. */
  unsettled(queue: string, message: Leased, reason: string): void;
  forwarded(queue: string, message: Leased, result: Extract<Forwarded, { kind: "answered" }>): void;
}

/** How often a closed port or a lost server is tried again. */
const AGAIN_MS = 500;
const POLL_SECONDS = 20;
/** How much longer than its request a lease lasts, in seconds: the time to settle. */
const SPARE_SECONDS = 10;
const LONGEST_LEASE = 43_200;

/** A queue to listen to. */
export interface Source {
  client: Client;
  queue: string;
  environment: string | undefined;
  url: URL;
  key: () => Promise<SigningKey>;
  concurrency: number;
  visibilityTimeoutSeconds: number;
  told: Told;
}

const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, "?").slice(0, 500);

async function settle({ client, queue, environment }: Source, message: Leased, result: Forwarded): Promise<void> {
  const receipt = message.receipt ?? "";
  const at = { queueName: queue, messageId: message.id };
  const nack = (body: { delaySeconds?: number; deadLetter?: boolean; countAttempt?: boolean; error?: string }) =>
    client.call("GigadriveNackMessage", { ...at, body: { receipt, environment, ...body } });
  if (result.kind === "refused") {
    await nack({ delaySeconds: 0, countAttempt: false });
    return;
  }
  const { outcome, error } = result;
  if (outcome.kind === "ack") await client.call("GigadriveAckMessage", { ...at, body: { receipt, environment } });
  else if (outcome.kind === "defer") await nack({ delaySeconds: Math.ceil(outcome.delayMs / 1000), countAttempt: false });
  else if (outcome.kind === "dead-letter") await nack({ deadLetter: true, error: printable(outcome.reason) });
  else
    await nack({
      ...(outcome.delayMs === null ? {} : { delaySeconds: Math.ceil(outcome.delayMs / 1000) }),
      ...(error === null ? {} : { error: printable(error) }),
    });
}

/** Whether trying again may help: the server is away or has too much to do. */
function passing(error: unknown): boolean {
  if (error instanceof ApiError) return error.code === "unavailable" || error.code === "overloaded" || /^HTTP 5/.test(error.code);
  return error instanceof CliError && error.exitCode === exitCode.unreachable;
}

/** Messages of one group in one line, in their order; one without a group alone. */
function linesOf(messages: readonly Leased[]): Leased[][] {
  const lines = new Map<string | Leased, Leased[]>();
  for (const message of messages) {
    const line = lines.get(message.groupKey ?? message);
    if (line === undefined) lines.set(message.groupKey ?? message, [message]);
    else line.push(message);
  }
  return [...lines.values()];
}

/** Listens until `signal` aborts. Rejects with what no waiting can mend, such as a missing right. */
export async function listenTo(source: Source, signal: AbortSignal): Promise<void> {
  const { client, queue, environment, url, told, concurrency } = source;
  const timeoutSeconds = Math.max(5, source.visibilityTimeoutSeconds - 1);
  const open = new Set<Promise<void>>();
  let state: "new" | "connected" | "holding" = "new";
  const pause = () => wait(AGAIN_MS, undefined, { signal }).catch(() => undefined);
  const hold = async (reason: string) => {
    if (state !== "holding" && !signal.aborted) told.holding(queue, reason);
    state = "holding";
    await pause();
  };
  /** Forwards and settles a message, or gives it back untried; answers whether the next of its group may follow. */
  const deliver = async (message: Leased, mayStart: boolean): Promise<boolean> => {
    try {
      const timeoutMs = timeoutSeconds * 1000;
      const result: Forwarded = mayStart ? await forward(message, { queue, url, key: await source.key(), timeoutMs }) : { kind: "refused" };
      await settle(source, message, result);
      if (result.kind === "refused") return false;
      told.forwarded(queue, message, result);
      return result.outcome.kind === "ack" || result.outcome.kind === "dead-letter";
    } catch (error) {
      const denied = error instanceof ApiError && (error.code === "permission_denied" || error.code === "unauthorized");
      if (denied || !(error instanceof CliError)) throw error;
      told.unsettled(queue, message, error.message);
      return false;
    }
  };
  /** One group's messages one at a time: behind one that is not done, or too late for their lease, the others go back. */
  const deliverInOrder = async (line: readonly Leased[]): Promise<void> => {
    const startBy = Date.now() + (SPARE_SECONDS * 1000) / 2;
    let goOn = true;
    for (const [place, message] of line.entries()) {
      if (place > 0 && (signal.aborted || Date.now() > startBy)) goOn = false;
      goOn = await deliver(message, goOn);
    }
  };

  let failure: unknown;
  while (!signal.aborted && failure === undefined) {
    if (open.size >= concurrency) {
      await Promise.race(open);
      continue;
    }
    if (!(await isOpen(url))) {
      await hold(`nothing listens at ${url.host}`);
      continue;
    }
    try {
      // The first call does not wait: once it is answered, everything is proven.
      const waitSeconds = state === "connected" ? POLL_SECONDS : 0;
      const visibilityTimeoutSeconds = Math.min(LONGEST_LEASE, timeoutSeconds + SPARE_SECONDS);
      const body = { maxMessages: Math.min(100, concurrency - open.size), waitSeconds, visibilityTimeoutSeconds, environment };
      const { messages } = await client.call("GigadriveReceive", { queueName: queue, body }, signal);
      if (state !== "connected") told.connected(queue, url.href);
      state = "connected";
      for (const line of linesOf(messages)) {
        const work: Promise<void> = deliverInOrder(line)
          .catch((error: unknown) => {
            failure ??= error;
          })
          .finally(() => open.delete(work));
        open.add(work);
      }
    } catch (error) {
      if (signal.aborted) break;
      if (!passing(error)) {
        failure = error;
        break;
      }
      await hold("the server can't be reached");
    }
  }
  await Promise.all(open);
  if (failure !== undefined) throw failure;
}
