/** Sends to queues by id, for workflows and anything else (W16). It has a key of its own: a run never borrows the server's rights. */
import { keyAuthorizer, missingAuthorizer } from "../credentials.ts";
import { variable } from "../environment.ts";
import { ApiError, ConfigurationError } from "../errors.ts";
import { addressOf } from "../millrace.ts";
import { platform, type Runtime } from "../runtime.ts";
import { createTransport, type Transport } from "../transport.ts";

/** Who sends, and where to. What is not given comes from the environment. */
export interface QueuesClientOptions {
  /** `MILLRACE_API_KEY` */
  apiKey?: string;
  /** By id or name; `MILLRACE_ORGANIZATION`. */
  organizationId?: string;
  /** By id or name; `MILLRACE_PROJECT`. */
  projectId?: string;
  /** `MILLRACE_URL`, else `http://127.0.0.1:7400`. */
  baseUrl?: string;
  /** How long one try may take, in milliseconds; 30,000 unless given. */
  timeoutMs?: number;
  /** Network, time and chance, for tests. */
  runtime?: Partial<Runtime>;
}

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
  readonly #transport: Transport;
  readonly #path: () => string;
  readonly #runtime: Runtime;

  /** Throws `ConfigurationError` when the address is no URL. */
  constructor(options: QueuesClientOptions = {}) {
    this.#runtime = { ...platform, ...options.runtime };
    const apiKey = options.apiKey ?? variable("MILLRACE_API_KEY");
    this.#transport = createTransport({
      url: addressOf(options.baseUrl),
      authorizer: apiKey === undefined ? missingAuthorizer : keyAuthorizer(apiKey),
      timeoutMs: options.timeoutMs ?? 30_000,
      maxRetries: 3,
      runtime: this.#runtime,
    });
    this.#path = () => projectPath(options.organizationId, options.projectId);
  }

  /**
   * Sends 1 to 10 messages, all or none; one result each, in order. A busy server (429, 5xx) and a broken connection are tried again up
   * to three times, after `Retry-After`; a spent quota (`quota_exceeded`) and any other refusal reject with `ApiError` at once.
   */
  async send(queueId: string, messages: readonly QueueMessage[], options: SendToQueueOptions = {}): Promise<SentToQueue[]> {
    const answer = await this.#transport({
      method: "POST",
      path: `${this.#path()}/queues/${encodeURIComponent(queueId)}/messages`,
      body: { messages },
      idempotencyKey: options.idempotencyKey ?? this.#runtime.uuid(),
      repeat: "failed",
      signal: options.signal,
    });
    const sent = (answer as { messages?: SentToQueue[] } | undefined)?.messages;
    if (!Array.isArray(sent)) throw new ApiError({ status: 200, code: "invalid_answer", message: "the server did not say what it stored" });
    return sent.map(({ messageId, seq }) => (seq === undefined ? { messageId } : { messageId, seq }));
  }
}

/** `/v1/organizations/{o}/projects/{p}`. Throws `ConfigurationError` when one of them is not known. */
export function projectPath(organizationId: string | undefined, projectId: string | undefined): string {
  const organization = organizationId ?? variable("MILLRACE_ORGANIZATION");
  const project = projectId ?? variable("MILLRACE_PROJECT");
  if (organization === undefined) throw new ConfigurationError("No organization. Set MILLRACE_ORGANIZATION, or pass organizationId.");
  if (project === undefined) throw new ConfigurationError("No project. Set MILLRACE_PROJECT, or pass projectId.");
  return `/v1/organizations/${encodeURIComponent(organization)}/projects/${encodeURIComponent(project)}`;
}

/** Whether a send that failed may succeed when the step tries again: the server was busy, or nobody knows what became of it. */
export function maySendAgain(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true;
  return error.status >= 500 || error.status < 400 || (error.status === 429 && error.code !== "quota_exceeded") || error.retryable;
}
