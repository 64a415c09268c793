/** Pulling (C11, C13): the calls about leased messages, each conditional on the receipt that proves the lease. */
import { bodyBytes, type Codec } from "./codec.ts";
import { type Duration, toSeconds } from "./duration.ts";
import { ApiError } from "./errors.ts";
import { asDate, type MessageMeta } from "./meta.ts";
import { openPayload, type Validate } from "./payload.ts";
import type { WireMessage } from "./records.ts";
import { headerText } from "./text.ts";
import type { Transport } from "./transport.ts";

/** How a message is given back. */
export interface NackOptions {
  /** Ready again after this time; by the queue's backoff unless given. */
  delay?: Duration;
  /** To the dead letters instead, with `error` as the reason. */
  deadLetter?: boolean;
  /** `false` gives the attempt back. */
  countAttempt?: boolean;
  /** Kept as the message's last error. */
  error?: string;
}

/** One message's acknowledgement. */
export interface AckResult {
  messageId: string;
  acknowledged: boolean;
  code?: string;
}

/** The longest lease, in seconds. */
export const maxLeaseSeconds = 43_200;
/** The longest that a receive waits, in seconds. */
export const maxWaitSeconds = 20;
/** The most messages that one acknowledgement takes. */
export const acksPerRequest = 100;

/** The pull calls of one queue. */
export interface Pull<T> {
  receive(given: { maxMessages: number; waitSeconds: number; visibilitySeconds?: number; signal?: AbortSignal }): Promise<WireMessage[]>;
  /** At most 100; one result each, in order. Does not reject for a message that is not acknowledged. */
  ack(messages: readonly WireMessage[]): Promise<AckResult[]>;
  nack(message: WireMessage, options: NackOptions): Promise<void>;
  extend(message: WireMessage, seconds: number): Promise<void>;
  /** The checked payload; rejects with `InvalidPayloadError`. */
  open(message: WireMessage): Promise<T>;
  meta(message: WireMessage, signal: AbortSignal): MessageMeta;
}

/** How long a message was leased, in milliseconds, by the store's clock alone; `undefined` when the record does not say. */
export function leaseMs({ leaseExpiresAt, lastDeliveredAt }: WireMessage): number | undefined {
  const ms = (asDate(leaseExpiresAt)?.getTime() ?? Number.NaN) - (asDate(lastDeliveredAt)?.getTime() ?? Number.NaN);
  return ms > 0 ? ms : undefined;
}

/** Whether an error says that the lease is over or the message gone. */
export const leaseIsLost = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === "receipt_mismatch" || error.code === "message_not_found");

/** Makes the pull calls of a queue; `path` is `…/queues/{name}/messages`. */
export function createPull<T>(given: {
  transport: Transport;
  queue: string;
  path: string;
  environment: string | undefined;
  codec?: Codec<T>;
  validate?: Validate<T>;
}): Pull<T> {
  const { transport, queue, path, environment } = given;
  const at = (message: WireMessage, verb: string): string => `${path}/${encodeURIComponent(message.id)}/${verb}`;
  return {
    async receive({ maxMessages, waitSeconds, visibilitySeconds, signal }) {
      const body = { environment, maxMessages, waitSeconds, visibilityTimeoutSeconds: visibilitySeconds };
      const answer = await transport({
        method: "POST",
        path: `${path}/receive`,
        body,
        repeat: "refused",
        waitMs: waitSeconds * 1000,
        signal,
      });
      return (answer as { messages?: WireMessage[] } | undefined)?.messages ?? [];
    },
    async ack(messages) {
      const body = { environment, messages: messages.map(({ id, receipt }) => ({ messageId: id, receipt })) };
      const answer = await transport({ method: "POST", path: `${path}/ack`, body, repeat: "always" });
      const results = (answer as { results?: AckResult[] } | undefined)?.results ?? [];
      return messages.map(({ id }, index) => results[index] ?? { messageId: id, acknowledged: false, code: "unknown" });
    },
    async nack(message, { delay, deadLetter, countAttempt, error }) {
      const delaySeconds = delay === undefined ? undefined : toSeconds("delay", delay);
      const body = { environment, receipt: message.receipt, delaySeconds, deadLetter, countAttempt, error: error && headerText(error) };
      await transport({ method: "POST", path: at(message, "nack"), body, repeat: "always" });
    },
    async extend(message, seconds) {
      const body = { environment, receipt: message.receipt, visibilityTimeoutSeconds: seconds };
      await transport({ method: "POST", path: at(message, "extend"), body, repeat: "always" });
    },
    open: (message) => openPayload(bodyBytes(message.body, message.encoding), message.contentType ?? undefined, given),
    meta: (message, signal) => ({
      queue,
      messageId: message.id,
      attempt: Math.max(1, message.attempts),
      createdAt: asDate(message.createdAt),
      expiresAt: asDate(message.expiresAt),
      deadline: asDate(message.leaseExpiresAt),
      groupKey: message.groupKey ?? undefined,
      deduplicationKey: message.deduplicationKey ?? undefined,
      deploymentId: message.deploymentId ?? undefined,
      deploymentFallback: undefined,
      contentType: message.contentType ?? undefined,
      headers: headersOf(message.headers),
      signal,
    }),
  };
}

/** Attributes that came through another door may have names or values that no header can have: those are left out. */
function headersOf(given: Record<string, string> | null): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given ?? {})) {
    try {
      headers.append(name, value);
    } catch {
      // as with push
    }
  }
  return headers;
}
