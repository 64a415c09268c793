/** Sends to queues by id, for workflows and anything else (W16). It has a key of its own: a run never borrows the server's rights. */
import { ApiError } from "../errors.ts";
import { type Connection, type ConnectionOptions, connect } from "./connection.ts";

/** A message as it is sent. A FIFO queue wants a `groupId`. */
export interface QueueMessage {
  /** Text, up to 256 KiB. */
  body: string;
  attributes?: Record<string, string>;
  groupId?: string;
  dedupId?: string;
  delaySeconds?: number;
}

/** What the server says of one message; `seq` on FIFO queues. */
export interface SentToQueue {
  messageId: string;
  seq?: string;
}

/** Sends, and says how it may be repeated. */
export interface SendToQueueOptions {
  /** Sends with the same key and messages store them once, for 48 hours; a fresh one unless given. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** A client of the queues of one project. Making one calls nothing. */
export class QueuesClient {
  readonly #connection: Connection;

  /** Throws `ConfigurationError` when the address is no URL. */
  constructor(options: ConnectionOptions = {}) {
    this.#connection = connect(options, 3);
  }

  /**
   * Sends 1 to 10 messages, all or none; one result each, in order. A busy server (429, 5xx) and a broken connection are tried again up
   * to three times, after `Retry-After`; a spent quota (`quota_exceeded`) and any other refusal reject with `ApiError` at once.
   */
  async send(queueId: string, messages: readonly QueueMessage[], options: SendToQueueOptions = {}): Promise<SentToQueue[]> {
    const { transport, projectPath, runtime } = this.#connection;
    const answer = await transport({
      method: "POST",
      path: `${projectPath()}/queues/${encodeURIComponent(queueId)}/messages`,
      body: { messages },
      idempotencyKey: options.idempotencyKey ?? runtime.uuid(),
      repeat: "failed",
      signal: options.signal,
    });
    const sent = (answer as { messages?: SentToQueue[] } | undefined)?.messages;
    if (!Array.isArray(sent)) throw new ApiError({ status: 200, code: "invalid_answer", message: "the server did not say what it stored" });
    return sent.map(({ messageId, seq }) => (seq === undefined ? { messageId } : { messageId, seq }));
  }
}

/** Whether a send that failed may succeed when the step tries again: the server was busy, or nobody knows what became of it. */
export function maySendAgain(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true;
  return error.status >= 500 || error.status < 400 || (error.status === 429 && error.code !== "quota_exceeded") || error.retryable;
}
