/**
 * The shapes of the Gigadrive front door (Q2 to Q5, C1, C7, C8). Unknown fields are passed over here: its clients send more than we
 * know. Times are ISO 8601 UTC with milliseconds, durations whole seconds, sizes bytes.
 */
import { z } from "zod";
import * as s from "../shapes.ts";

const time = z.string();
const seconds = (min: number, max: number) => z.int().min(min).max(max);
const printable = z.string().regex(/^[\x20-\x7e]{1,256}$/, "1 to 256 printable ASCII characters");
const id = z.string().regex(/^[A-Za-z0-9_.:-]{1,128}$/, "1 to 128 of letters, digits, _ . : -");

/** A slug or a UUID; absent: `production`. */
export const environment = s.reference.optional();
/** In the query of GET and DELETE; taken there from any call. */
export const where = z.object({ environment });
/** The body of a call that says nothing but where. */
export const nothingElse = where.optional();

export const paging = where.extend({
  offset: s.digits(0, 100_000).optional(),
  limit: s.digits(1, 200).optional(),
});
/** A page: the items, and how many there are in all. */
export const list = <Item extends z.ZodType>(item: Item) => z.object({ items: z.array(item), total: z.int() });

/** C1: what follows a deployment's base URL. */
export const consumerPath = z
  .string()
  .max(512)
  .regex(/^\/[\x21-\x7e]*$/, "a path that begins with / and holds neither spaces nor characters beyond ASCII")
  .refine((path) => !/[#\\]/.test(path), "a path without # and \\")
  .refine((path) => !/(?:\.|%2e){2}/i.test(path.split("?", 1)[0] as string), "a path without ..");

/** Q2, as an update may name it. */
export const queueSettings = z.object({
  environment,
  consumerPath: consumerPath.nullable().optional(),
  visibilityTimeoutSeconds: seconds(1, 43_200).optional(),
  retentionSeconds: seconds(60, 1_209_600).optional(),
  delaySeconds: seconds(0, 31_536_000).optional(),
  maxAttempts: z.int().min(1).max(100).optional(),
  deadLetter: z.boolean().optional(),
  retryBackoffMinSeconds: seconds(1, 43_200).nullable().optional(),
  retryBackoffMaxSeconds: seconds(1, 43_200).nullable().optional(),
  deduplicationWindowSeconds: seconds(0, 604_800).optional(),
  contentBasedDeduplication: z.boolean().optional(),
  concurrency: z.int().min(1).max(1000).optional(),
  rateLimit: z
    .object({ count: z.int().min(1).max(100_000), periodSeconds: seconds(1, 86_400) })
    .nullable()
    .optional(),
  maxBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).nullable().optional(),
  paused: z.boolean().optional(),
});
/** `type` and `database` count when the queue is made; they never change. */
export const putQueue = queueSettings.extend({ type: z.enum(["standard", "fifo"]).optional(), database: s.databaseName.optional() });
export const createQueue = putQueue.extend({ name: s.queueName });

export const stats = s.queueStats.omit({ expired: true });
export const queue = z.object({
  id: z.string(),
  resourceName: z.string(),
  name: z.string(),
  environment: z.string(),
  type: z.enum(["standard", "fifo"]),
  mode: z.enum(["push", "pull"]),
  consumerPath: z.string().nullable(),
  visibilityTimeoutSeconds: z.int(),
  retentionSeconds: z.int(),
  delaySeconds: z.int(),
  maxAttempts: z.int().nullable(),
  deadLetter: z.boolean(),
  retryBackoffMinSeconds: z.int(),
  retryBackoffMaxSeconds: z.int(),
  deduplicationWindowSeconds: z.int(),
  contentBasedDeduplication: z.boolean(),
  concurrency: z.int(),
  rateLimit: z.object({ count: z.int(), periodSeconds: z.int() }).nullable(),
  maxBytes: z.int().nullable(),
  paused: z.boolean(),
  source: z.enum(["api", "config", "auto"]),
  database: z.string(),
  createdAt: time,
  updatedAt: time,
  stats,
});
export const placedQueue = queue.extend({ created: z.boolean() });

/** One message of a send. The body is `json`, or `body` in the given encoding. */
export const message = z.object({
  json: z.unknown().optional(),
  body: z.string().optional(),
  encoding: z.enum(["utf8", "base64"]).optional(),
  contentType: z
    .string()
    .regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/, "1 to 255 printable ASCII characters")
    .nullable()
    .optional(),
  headers: s.attributes.nullable().optional(),
  delaySeconds: seconds(0, 31_536_000).nullable().optional(),
  deliverAt: z.iso.datetime({ offset: true }).nullable().optional(),
  groupKey: printable.nullable().optional(),
  deduplicationKey: printable.nullable().optional(),
  deploymentId: id.nullable().optional(),
});
/** One message, or up to 100 in `messages`: those are checked one by one, so that one at fault does not fail the rest. */
export const send = message.extend({
  environment,
  autoCreate: z.boolean().optional(),
  messages: z
    .array(z.unknown().meta({ type: "object", description: "A message, in the fields beside `messages`." }))
    .min(1)
    .max(100)
    .optional(),
});
export const sent = z.object({
  messageId: z.string().nullable(),
  deduplicated: z.boolean().optional(),
  deliverAt: time.optional(),
  error: z.string().optional(),
  code: z.string().optional(),
  retryable: z.boolean().optional(),
});
/** One result for one message, `results` for a batch. */
export const sendAnswer = z.union([sent, z.object({ results: z.array(sent) })]);

export const record = z.object({
  id: z.string(),
  state: s.messageState,
  body: z.string(),
  encoding: z.enum(["utf8", "base64"]),
  bodyTruncated: z.boolean(),
  contentType: z.string().nullable(),
  headers: s.attributes,
  attempts: z.int(),
  sizeBytes: z.int(),
  groupKey: z.string().nullable(),
  deduplicationKey: z.string().nullable(),
  deploymentId: z.string().nullable(),
  source: z.string(),
  lastError: z.string().nullable(),
  createdAt: time,
  deliverAt: time,
  expiresAt: time.nullable(),
  leaseExpiresAt: time.nullable(),
  lastDeliveredAt: time.nullable(),
  deadAt: time.nullable(),
  receipt: z.string().nullable(),
});

const receipt = z.string().min(1).max(200);
export const receive = where
  .extend({
    maxMessages: z.int().min(1).max(100).optional(),
    waitSeconds: seconds(0, 20).optional(),
    visibilityTimeoutSeconds: seconds(1, 43_200).optional(),
  })
  .optional();
export const received = z.object({ messages: z.array(record) });
export const ack = where.extend({ receipt });
export const acknowledged = z.object({ messageId: z.string(), acknowledged: z.boolean() });
export const ackMessages = where.extend({
  messages: z
    .array(z.object({ messageId: z.string().min(1).max(200), receipt }))
    .min(1)
    .max(100),
});
export const ackResults = z.object({
  results: z.array(z.object({ messageId: z.string(), acknowledged: z.boolean(), code: z.string().optional() })),
});
export const nack = where.extend({
  receipt,
  delaySeconds: seconds(0, 31_536_000).optional(),
  deadLetter: z.boolean().optional(),
  countAttempt: z.boolean().optional(),
  error: z
    .string()
    .regex(/^[\x20-\x7e]{0,500}$/, "up to 500 printable ASCII characters")
    .optional(),
});
export const nacked = z.object({ status: z.enum(["retrying", "dead", "dropped"]), deliverAt: time.optional() });
export const extend = where.extend({ receipt, visibilityTimeoutSeconds: seconds(1, 43_200) });
export const extended = z.object({ leaseExpiresAt: time });
export const deleted = z.object({ deleted: z.boolean() });

export const purge = where.extend({ scope: z.enum(["all", "dead"]).optional() }).optional();
export const purged = z.object({ purgedMessages: z.int() });
export const redrive = where.extend({ messageIds: z.array(z.string().min(1).max(200)).max(1000).nullable().optional() }).optional();
export const redriven = z.object({ redrivenMessages: z.int() });

/** C9: what a schedule sends and when. `body` is text. */
export const scheduleSettings = where.extend({
  cron: z.string().min(1).max(200).optional(),
  timezone: z.string().min(1).max(64).optional(),
  body: z.string().optional(),
  contentType: message.shape.contentType,
  headers: message.shape.headers,
  enabled: z.boolean().optional(),
});
export const createSchedule = scheduleSettings.extend({ name: s.queueName, cron: z.string().min(1).max(200) });
export const schedule = z.object({
  id: z.string(),
  name: z.string(),
  cron: z.string(),
  timezone: z.string(),
  body: z.string(),
  contentType: z.string(),
  headers: s.attributes,
  enabled: z.boolean(),
  nextRunAt: time.nullable(),
  lastRunAt: time.nullable(),
  lastMessageId: z.string().nullable(),
  lastError: z.string().nullable(),
  source: z.enum(["api", "config"]),
});

export const deploymentId = id;
/** The section of queues of a configuration file, by name; what it holds is read by `readDeclaredQueues`. */
const section = z.unknown().meta({ type: "object", description: "Queues by name, in the words of `services.queues` of `millrace.yaml`." });
/** C10: `check` changes nothing, `prune` also removes what a file made and this one no longer names. */
export const applyConfig = where.extend({ queues: section, check: z.boolean().optional(), prune: z.boolean().optional() });
export const appliedConfig = z.object({
  applied: z.boolean(),
  changes: z.array(
    z.object({
      kind: z.enum(["queue", "schedule"]),
      queue: z.string(),
      name: z.string(),
      action: z.enum(["create", "change", "unchanged", "remove"]),
      fields: z.array(z.string()),
    }),
  ),
});
/** C7: `config` is such a section, applied with the registration. */
export const putDeployment = z.object({ url: z.string().min(1), environment, config: section.optional() });
export const deployment = z.object({
  id: z.string(),
  environment: z.string(),
  url: z.string(),
  state: z.enum(["registered", "current", "retired"]),
  promotedAt: time.nullable(),
  createdAt: time,
  updatedAt: time,
});
export const createEnvironment = z.object({ slug: s.slug });
export const environmentRecord = z.object({ id: z.string(), slug: z.string(), createdAt: time });
/** C8: `next` is prepared and takes over at `activatesAt`, or when it is activated. */
export const signingSecret = z.object({
  secret: z.string(),
  next: z.object({ secret: z.string(), activatesAt: time }).nullable(),
});
