/** A queue by name (C11): everything that a program does with it. Making a handle calls nothing; a queue need not exist for it. */
import type { Codec } from "./codec.ts";
import { type ConsumeOptions, type ConsumeSummary, consume } from "./consume.ts";
import { type Duration, toSeconds } from "./duration.ts";
import { ApiError } from "./errors.ts";
import { createPushHandler, type MessageHandler, type PushHandler } from "./handler.ts";
import type { MessageMeta } from "./meta.ts";
import { InvalidPayloadError } from "./outcome.ts";
import type { Validate } from "./payload.ts";
import { createPull, maxLeaseSeconds, maxWaitSeconds, type NackOptions } from "./pull.ts";
import { type QueueInfo, type RefusedMessage, type ScheduleInfo, type SentMessage, withDates } from "./records.ts";
import type { Runtime } from "./runtime.ts";
import { type ScheduleOptions, wireSchedule } from "./schedule.ts";
import { type BatchMessage, type SendOptions, sendMany, sendOne } from "./send.ts";
import { type QueueSettings, wireSettings } from "./settings.ts";
import type { Secrets } from "./signature.ts";
import { messageOf } from "./text.ts";
import type { Call, Transport } from "./transport.ts";

/** What a handle knows of its queue. */
export interface QueueOptions<T> {
  /** Checks every payload that comes in: a function that answers it or throws (Zod's `Schema.parse`), or a schema of the Standard Schema kind. */
  validate?: Validate<T>;
  /** How payloads become bodies; by content type unless given. */
  codec?: Codec<T>;
  /** Of push deliveries; from the environment unless given. Several while one takes over from another. */
  signingSecret?: Secrets;
  /** Accepts push requests without a signature. For development only. */
  allowUnsigned?: boolean;
  /** Slug or id; the client's unless given. */
  environment?: string;
  /** Whether a send, or a worker, makes a queue that does not exist: a pull queue with default settings. `true` unless given. */
  autoCreate?: boolean;
}

/** A message that was received and must be settled before its lease ends. */
export interface ReceivedMessage<T> extends Omit<MessageMeta, "signal"> {
  payload: T;
  /** Done with it: it is gone for good. Rejects when the lease is lost. */
  ack(): Promise<void>;
  /** Gives it back. */
  nack(options?: NackOptions): Promise<void>;
  /** Moves the end of the lease to that long from now. */
  extend(by: Duration): Promise<void>;
}

/** A queue of payloads of type `T`. */
export interface Queue<T> {
  readonly name: string;
  /** Sends one message; resolves once it is durable. */
  send(payload: T, options?: SendOptions): Promise<SentMessage>;
  /** Sends any number of messages; one result each, in order. One that is refused does not keep the others from being sent. */
  sendBatch(messages: readonly BatchMessage<T>[]): Promise<(SentMessage | RefusedMessage)[]>;
  /** Deletes a message that waits; `false` when there is no such message. */
  cancel(messageId: string): Promise<boolean>;
  /** Leases messages. One whose payload is not valid goes to the dead letters and is not among them. */
  receive(options?: {
    maxMessages?: number;
    wait?: Duration;
    visibilityTimeout?: Duration;
    signal?: AbortSignal;
  }): Promise<ReceivedMessage<T>[]>;
  /** Receives and handles messages until it is stopped. */
  consume(handle: MessageHandler<T>, options?: ConsumeOptions): Promise<ConsumeSummary>;
  /** The route handler of a push queue. */
  handler(handle: MessageHandler<T>): PushHandler;
  /** Makes the queue, or changes the settings given. */
  ensure(settings?: QueueSettings): Promise<QueueInfo & { created: boolean }>;
  /** Settings and depth. */
  info(): Promise<QueueInfo>;
  /** Hands out no more messages. Sends are still accepted. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Removes all messages, or only the dead letters; answers how many. */
  purge(scope?: "all" | "dead"): Promise<number>;
  /** Sends dead letters back with fresh attempts, all or by id; answers how many. */
  redrive(messageIds?: readonly string[]): Promise<number>;
  /** Makes the schedule of this name, or changes it. */
  schedule(name: string, options: ScheduleOptions<T>): Promise<ScheduleInfo>;
  /** Deletes a schedule; `false` when there is none of this name. */
  unschedule(name: string): Promise<boolean>;
}

/** What a handle gets from its client, when it calls. */
export interface QueueContext {
  transport: Transport;
  /** Throws `ConfigurationError` when no project is configured. */
  queuesPath(): string;
  environment: string | undefined;
  maxRetries: number;
  runtime: Runtime;
}

/** Makes a handle. `context` is asked for at the first call, so that a handle needs no configuration until then. */
export function createQueue<T>(name: string, options: QueueOptions<T>, context: () => QueueContext, runtime: Runtime): Queue<T> {
  const { codec, validate, autoCreate } = options;
  const place = () => {
    const client = context();
    const path = `${client.queuesPath()}/${encodeURIComponent(name)}`;
    return { ...client, environment: options.environment ?? client.environment, path, messages: `${path}/messages` };
  };
  const call = async (method: Call["method"], below: string, given: object = {}, extra: Partial<Call> = {}): Promise<unknown> => {
    const { transport, path, environment } = place();
    const inQuery = method === "GET" || method === "DELETE";
    const fields = { environment, ...given };
    return transport({ method, path: path + below, repeat: "always", ...(inQuery ? { query: fields } : { body: fields }), ...extra });
  };
  const deleted = async (below: string, missing: string): Promise<boolean> => {
    try {
      await call("DELETE", below);
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.code === missing) return false;
      throw error;
    }
  };
  const sender = () => {
    const { messages, ...client } = place();
    return { ...client, path: messages, codec, autoCreate };
  };
  const puller = () => {
    const { transport, messages, environment } = place();
    return createPull<T>({ transport, queue: name, path: messages, environment, codec, validate });
  };

  return {
    name,
    send: async (payload, given = {}) => sendOne(sender(), payload, given),
    sendBatch: async (messages) => sendMany(sender(), messages),
    cancel: (messageId) => deleted(`/messages/${encodeURIComponent(messageId)}`, "message_not_found"),

    async receive({ maxMessages = 1, wait = 0, visibilityTimeout, signal } = {}) {
      const pull = puller();
      const waitSeconds = toSeconds("wait", wait, 0, maxWaitSeconds);
      const visibilitySeconds =
        visibilityTimeout === undefined ? undefined : toSeconds("visibilityTimeout", visibilityTimeout, 1, maxLeaseSeconds);
      const received: ReceivedMessage<T>[] = [];
      for (const message of await pull.receive({ maxMessages, waitSeconds, visibilitySeconds, signal })) {
        try {
          const { signal: _, ...meta } = pull.meta(message, new AbortController().signal);
          received.push({
            ...meta,
            payload: await pull.open(message),
            async ack() {
              const [result] = await pull.ack([message]);
              if (result?.acknowledged === true) return;
              const code = result?.code ?? "unknown";
              throw new ApiError({ status: 409, code, message: `message ${message.id} was not acknowledged: ${code}` });
            },
            nack: (how = {}) => pull.nack(message, how),
            extend: (by) => pull.extend(message, toSeconds("by", by, 1, maxLeaseSeconds)),
          });
        } catch (error) {
          const how = error instanceof InvalidPayloadError ? { deadLetter: true, error: error.message } : { error: messageOf(error) };
          // The others are leased already: a message that cannot be given back comes again when its lease ends.
          await pull.nack(message, how).catch(() => undefined);
        }
      }
      return received;
    },
    async consume(handle, given = {}) {
      const pull = puller();
      const receive: typeof pull.receive = async (asked) => {
        try {
          return await pull.receive(asked);
        } catch (error) {
          // A worker may start before whoever sends first.
          if (autoCreate === false || !(error instanceof ApiError) || error.code !== "queue_not_found") throw error;
          await call("PUT", "");
          return pull.receive(asked);
        }
      };
      return consume({ ...pull, receive }, handle, given, runtime);
    },
    handler: (handle) => createPushHandler({ queue: name, ...options }, handle, runtime),

    ensure: async (settings = {}) => withDates<QueueInfo & { created: boolean }>(await call("PUT", "", wireSettings(settings))),
    info: async () => withDates<QueueInfo>(await call("GET", "")),
    pause: async () => void (await call("POST", "/pause")),
    resume: async () => void (await call("POST", "/resume")),
    purge: async (scope = "all") => ((await call("POST", "/purge", { scope })) as { purgedMessages: number }).purgedMessages,
    redrive: async (messageIds) => ((await call("POST", "/redrive", { messageIds })) as { redrivenMessages: number }).redrivenMessages,

    async schedule(schedule, given) {
      const fields = wireSchedule(given, codec);
      try {
        const idempotencyKey = runtime.uuid();
        return withDates<ScheduleInfo>(await call("POST", "/schedules", { name: schedule, ...fields }, { idempotencyKey }));
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "schedule_exists") throw error;
        return withDates<ScheduleInfo>(await call("PATCH", `/schedules/${encodeURIComponent(schedule)}`, fields));
      }
    },
    unschedule: (schedule) => deleted(`/schedules/${encodeURIComponent(schedule)}`, "schedule_not_found"),
  };
}
