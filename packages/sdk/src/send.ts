/**
 * Sending (C11). Every request carries an `Idempotency-Key`, so that one whose answer was lost can be repeated and still stores its
 * messages once. A message that the server refused for now is sent again under a new key: the old one stands for the refusal.
 */
import { type Codec, encodePayload } from "./codec.ts";
import { type Duration, optionalSeconds } from "./duration.ts";
import { ApiError } from "./errors.ts";
import { asDate } from "./meta.ts";
import type { RefusedMessage, SentMessage } from "./records.ts";
import type { Runtime } from "./runtime.ts";
import { messageOf } from "./text.ts";
import { retryDelayMs, type Transport } from "./transport.ts";

/** How one message is sent. */
export interface SendOptions {
  /** Not before this time has passed. */
  delay?: Duration;
  /** Not before this instant: a date, Unix milliseconds, or an ISO 8601 text. */
  at?: Date | number | string;
  /** Messages of a group are handled one at a time, in order. */
  groupKey?: string;
  /** A second send with the same key within the queue's window stores nothing and answers the first message's id. */
  deduplicationKey?: string;
  /** The deployment that should get it, while it serves. */
  deploymentId?: string;
  /** Delivered as request headers. */
  headers?: Record<string, string>;
}

/** One message of `sendBatch`. */
export interface BatchMessage<T> extends SendOptions {
  payload: T;
}

/** What sends need to know of their queue. */
export interface Sender<T> {
  transport: Transport;
  runtime: Runtime;
  /** `…/queues/{name}/messages` */
  path: string;
  environment: string | undefined;
  autoCreate: boolean | undefined;
  codec: Codec<T> | undefined;
  maxRetries: number;
  signal?: AbortSignal;
}

const perRequest = 100;
/** A batch request may have 40 MiB; a message's JSON is rarely longer than its body, and base64 is counted as it is. */
const bytesPerRequest = 24 * 1024 * 1024;

type WireSend = ReturnType<typeof wireMessage>;

function wireMessage<T>(payload: T, options: SendOptions, codec: Codec<T> | undefined) {
  const { delay, at, groupKey, deduplicationKey, deploymentId, headers } = options;
  if (delay !== undefined && at !== undefined) throw new RangeError("at: give either delay or at, not both");
  const deliverAt = at === undefined ? undefined : asDate(at instanceof Date ? at.getTime() : at);
  if (at !== undefined && deliverAt === undefined) {
    throw new RangeError(`at: must be a date, Unix milliseconds or an ISO 8601 text, got ${String(at)}`);
  }
  return {
    ...encodePayload(payload, codec),
    delaySeconds: optionalSeconds("delay", delay),
    deliverAt: deliverAt?.toISOString(),
    groupKey,
    deduplicationKey,
    deploymentId,
    headers,
  };
}

function resultOf(answer: unknown): SentMessage | RefusedMessage {
  const { messageId, deduplicated, deliverAt, error, code, retryable } = (answer ?? {}) as Record<string, unknown>;
  if (typeof messageId === "string") return { messageId, deduplicated: deduplicated === true, deliverAt: asDate(deliverAt) };
  return {
    messageId: null,
    error: String(error ?? "the message was not taken"),
    code: String(code ?? "unknown"),
    retryable: retryable === true,
  };
}

/** Waits before refused messages are sent again; resolves to whether they should be. */
async function again<T>(tries: number, { runtime, maxRetries, signal }: Sender<T>): Promise<boolean> {
  if (tries > maxRetries) return false;
  await runtime.wait(retryDelayMs(tries, runtime.random()), signal);
  return signal?.aborted !== true;
}

/** Sends one message. Rejects with `ApiError` when it is refused. */
export async function sendOne<T>(sender: Sender<T>, payload: T, options: SendOptions): Promise<SentMessage> {
  const { transport, runtime, path, environment, autoCreate, signal } = sender;
  const body = { environment, autoCreate, ...wireMessage(payload, options, sender.codec) };
  for (let tries = 1; ; tries += 1) {
    const result = resultOf(await transport({ method: "POST", path, body, idempotencyKey: runtime.uuid(), repeat: "always", signal }));
    if (result.messageId !== null) return result;
    if (!result.retryable || !(await again(tries, sender))) {
      throw new ApiError({ status: 200, code: result.code, message: result.error, retryable: result.retryable });
    }
  }
}

/** Cuts a batch into requests of at most 100 messages and 24 MiB. */
function chunks(messages: readonly WireSend[]): { from: number; messages: WireSend[] }[] {
  const cut: { from: number; messages: WireSend[]; bytes: number }[] = [];
  for (const [index, message] of messages.entries()) {
    const bytes = message.body.length * (message.encoding === "base64" ? 1 : 3);
    let last = cut.at(-1);
    if (last === undefined || last.messages.length === perRequest || last.bytes + bytes > bytesPerRequest) {
      last = { from: index, messages: [], bytes: 0 };
      cut.push(last);
    }
    last.messages.push(message);
    last.bytes += bytes;
  }
  return cut;
}

/** A message of a request that failed when others before it had been taken. Without an answer nobody knows whether it was stored. */
function lost(error: unknown): RefusedMessage {
  const known = error instanceof ApiError ? error : undefined;
  return { messageId: null, error: messageOf(error), code: known?.code ?? "no_answer", retryable: known?.retryable ?? false };
}

/** Sends any number of messages; answers one result per message, in order. A refused message does not keep the others from being sent. */
export async function sendMany<T>(sender: Sender<T>, batch: readonly BatchMessage<T>[]): Promise<(SentMessage | RefusedMessage)[]> {
  const { transport, runtime, path, environment, autoCreate, signal } = sender;
  const wire = batch.map(({ payload, ...options }, index) => {
    try {
      return wireMessage(payload, options, sender.codec);
    } catch (error) {
      throw new RangeError(`messages.${index}.${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  });
  const results: (SentMessage | RefusedMessage)[] = [];
  const post = async (messages: readonly WireSend[]): Promise<(SentMessage | RefusedMessage)[]> => {
    const body = { environment, autoCreate, messages };
    const answer = await transport({ method: "POST", path, body, idempotencyKey: runtime.uuid(), repeat: "always", signal });
    const given = (answer as { results?: unknown[] } | undefined)?.results ?? [];
    return messages.map((_, index) => resultOf(given[index]));
  };
  let failure: unknown;
  for (const chunk of chunks(wire)) {
    if (failure === undefined) {
      try {
        for (const [index, result] of (await post(chunk.messages)).entries()) results[chunk.from + index] = result;
        continue;
      } catch (error) {
        if (chunk.from === 0) throw error;
        failure = error;
        results.push(...chunk.messages.map(() => lost(error)));
        continue;
      }
    }
    results.push(
      ...chunk.messages.map(
        (): RefusedMessage => ({ messageId: null, error: "not sent after a failure", code: "not_sent", retryable: true }),
      ),
    );
  }
  if (failure !== undefined) return results;
  const refused = (): number[] => [...results.keys()].filter((index) => (results[index] as RefusedMessage).retryable === true);
  for (let tries = 1, left = refused(); left.length > 0 && (await again(tries, sender)); tries += 1, left = refused()) {
    for (const chunk of chunks(left.map((index) => wire[index] as WireSend))) {
      const place = (given: readonly (SentMessage | RefusedMessage)[]): void => {
        for (const [at, result] of given.entries()) results[left[chunk.from + at] as number] = result;
      };
      try {
        place(await post(chunk.messages));
      } catch (error) {
        // What was taken before is taken: the others are told as they stand.
        place(chunk.messages.map(() => lost(error)));
        return results;
      }
    }
  }
  return results;
}
