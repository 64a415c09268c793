/**
 * The shapes of the EZGH front door, declared once: what a route takes and answers, with its bounds (rules Q1 to Q5, P1 to P3).
 * The wire shape is the domain shape. Times are ISO 8601 UTC with milliseconds, durations whole seconds, sizes bytes.
 */
import { z } from "zod";
import { workflowName } from "./workflows/protocol.ts";

export const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, "a UUID in lower case");
const time = z.string();
const seconds = (min: number, max: number) => z.int().min(min).max(max);

/** Q1: not `.`, `..`, nor of a UUID's or a resource name's form. */
export const queueName = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,128}$/, "1 to 128 of letters, digits, _ . : -")
  .refine((name) => name !== "." && name !== "..", "not . or ..")
  .refine((name) => !/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(name), "not of a UUID's form")
  .refine((name) => !/^que_[a-z0-9]{12}$/.test(name), "not of a resource name's form");
export const slug = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/, "1 to 64 of lower-case letters, digits and -, not at an end");

/** No database text holds U+0000, and nothing is called so. */
export const withoutNul = (text: string): boolean => !text.includes("\0");

/** A reference in a path or a body: a UUID, a resource name or a name. */
export const reference = z.string().min(1).max(200).refine(withoutNul, "without U+0000");

export const redrivePolicy = z.strictObject({ deadLetterQueueId: reference, maxReceiveCount: z.int().min(1).max(1000) });

/** Q2, as an update may name it: every field optional, `null` unsets where a setting may be unset. */
export const queueSettings = z.strictObject({
  visibilityTimeoutSeconds: seconds(1, 43_200).optional(),
  retentionSeconds: seconds(60, 1_209_600).optional(),
  delaySeconds: seconds(0, 31_536_000).optional(),
  redrivePolicy: redrivePolicy.nullable().optional(),
  retryBackoffMinSeconds: seconds(1, 43_200).nullable().optional(),
  retryBackoffMaxSeconds: seconds(1, 43_200).nullable().optional(),
  deduplicationWindowSeconds: seconds(0, 604_800).optional(),
  contentBasedDeduplication: z.boolean().optional(),
  rateLimit: z
    .strictObject({ count: z.int().min(1).max(100_000), periodSeconds: seconds(1, 86_400) })
    .nullable()
    .optional(),
  groups: z.strictObject({ concurrency: z.int().min(1).max(1000).nullable() }).optional(),
  maxBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).nullable().optional(),
  paused: z.boolean().optional(),
});

/** A14: the name of a database in the server's configuration. */
export const databaseName = z.string().regex(/^[a-z0-9-]{1,32}$/, "1 to 32 of lower-case letters, digits and -");

export const createQueue = queueSettings.extend({
  name: queueName,
  type: z.enum(["standard", "fifo"]).optional(),
  /** Where it is to live; for good. */
  database: databaseName.optional(),
});

export const queue = z.object({
  id: z.string(),
  resourceName: z.string(),
  name: z.string(),
  type: z.enum(["standard", "fifo"]),
  visibilityTimeoutSeconds: z.int(),
  retentionSeconds: z.int(),
  delaySeconds: z.int(),
  redrivePolicy: z.object({ deadLetterQueueId: z.string(), maxReceiveCount: z.int() }).nullable(),
  deadLetter: z.enum(["queue", "list", "drop"]).nullable(),
  maxAttempts: z.int().nullable(),
  retryBackoffMinSeconds: z.int().nullable(),
  retryBackoffMaxSeconds: z.int().nullable(),
  deduplicationWindowSeconds: z.int(),
  contentBasedDeduplication: z.boolean(),
  rateLimit: z.object({ count: z.int(), periodSeconds: z.int() }).nullable(),
  groups: z.object({ concurrency: z.int().nullable() }),
  maxBytes: z.int().nullable(),
  paused: z.boolean(),
  source: z.enum(["api", "config", "auto"]),
  database: z.string(),
  createdAt: time,
  updatedAt: time,
});

/** Q4: exact below 100,000 messages; above, `approximate: true` may stand. */
export const queueStats = z.object({
  ready: z.int(),
  scheduled: z.int(),
  waiting: z.int(),
  inflight: z.int(),
  dead: z.int(),
  bytes: z.int(),
  sent: z.int(),
  acknowledged: z.int(),
  failed: z.int(),
  deadLettered: z.int(),
  expired: z.int(),
  oldestReadyAt: time.nullable(),
  nextScheduledAt: time.nullable(),
  approximate: z.boolean().optional(),
});

const printable = z.string().regex(/^[\x20-\x7e]{1,256}$/, "1 to 256 printable ASCII characters");
export const attributeName = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "1 to 64 of letters, digits, _ . -");

/** A map of strings, taken as it is: `z.record` would silently drop a name like `__proto__`. */
export const attributes = z
  .unknown()
  .refine((given) => typeof given === "object" && given !== null && !Array.isArray(given), { error: "an object", abort: true })
  .refine((given) => Object.values(given as object).every((value) => typeof value === "string"), "values must be strings")
  .meta({ type: "object", additionalProperties: { type: "string" } }) as unknown as z.ZodType<
  Record<string, string>,
  Record<string, string>
>;

export const sendMessage = z.strictObject({
  body: z.string().optional(),
  bodyBase64: z.string().optional(),
  attributes: attributes.optional(),
  delaySeconds: seconds(0, 31_536_000).optional(),
  groupId: printable.optional(),
  dedupId: printable.optional(),
});
export const sendMessages = z.strictObject({ messages: z.array(sendMessage).min(1).max(10) });
export const sentMessages = z.object({
  messages: z.array(z.object({ messageId: z.string(), seq: z.string().optional(), deduplicated: z.boolean().optional() })),
});

const messageFields = {
  messageId: z.string(),
  body: z.string().optional(),
  bodyBase64: z.string().optional(),
  attributes,
  sentAt: time,
  receiveCount: z.int(),
  groupId: z.string().optional(),
  seq: z.string().optional(),
};
export const receiveMessages = z.strictObject({
  maxMessages: z.int().min(1).max(10).optional(),
  waitSeconds: seconds(0, 20).optional(),
  visibilityTimeoutSeconds: seconds(1, 43_200).optional(),
});
export const receivedMessages = z.object({ messages: z.array(z.object({ ...messageFields, receipt: z.string(), leaseExpiresAt: time })) });

const receipt = z.string().min(1).max(200);
export const ackMessages = z.strictObject({ receipts: z.array(receipt).min(1).max(10) });
export const changeVisibility = z.strictObject({
  receipts: z
    .array(z.strictObject({ receipt, visibilityTimeoutSeconds: seconds(0, 43_200) }))
    .min(1)
    .max(10),
});
/** One entry per receipt, in order; `code` says why an entry failed (`receipt_mismatch`, `message_not_found`). */
export const receiptResults = z.object({
  results: z.array(z.object({ receipt: z.string(), ok: z.boolean(), code: z.string().optional(), message: z.string().optional() })),
});

export const messageState = z.enum(["scheduled", "ready", "waiting", "inflight", "dead"]);
export const peekedMessage = z.object({
  ...messageFields,
  state: messageState,
  contentType: z.string().nullable(),
  dedupId: z.string().nullable(),
  attempts: z.int(),
  sizeBytes: z.int(),
  deliverAt: time,
  expiresAt: time.nullable(),
  leaseExpiresAt: time.nullable(),
  lastDeliveredAt: time.nullable(),
  lastError: z.string().nullable(),
  deadAt: time.nullable(),
  deadLetterSourceQueueId: z.string().nullable(),
});

export const purgeQueue = z.strictObject({ scope: z.enum(["all", "dead"]).optional() });
export const purged = z.object({ purgedMessages: z.int() });

export const startRedrive = z.strictObject({
  messageIds: z.array(uuid).min(1).max(1000).optional(),
  ratePerSecond: z.int().min(1).max(10_000).optional(),
});
export const redrive = z.object({
  id: z.string(),
  queueId: z.string(),
  state: z.enum(["running", "done", "cancelled"]),
  selected: z.int(),
  moved: z.int(),
  remaining: z.int(),
  failed: z.int(),
  lastError: z.string().nullable(),
  createdAt: time,
  updatedAt: time,
});

export const httpsTarget = z.strictObject({ kind: z.literal("https"), url: z.string().min(1), timeoutSeconds: seconds(1, 60).optional() });
/** W12: each message starts a run. */
export const startTarget = z.strictObject({
  kind: z.literal("workflow"),
  mode: z.literal("start"),
  appId: reference,
  workflow: workflowName,
});
/** W14, W15: each message resumes the runs that wait for its attribute's value; what nobody waits for may be kept. */
export const resumeTarget = z.strictObject({
  kind: z.literal("workflow"),
  mode: z.literal("resume"),
  appId: reference,
  workflow: workflowName,
  correlationAttribute: attributeName,
  keepUnmatchedSeconds: seconds(0, 604_800).optional(),
});
const workflowTarget = z.discriminatedUnion("mode", [startTarget, resumeTarget]);
const target = z.discriminatedUnion("kind", [httpsTarget, workflowTarget]);
/** `batchSize` of a workflow is 1. */
export const createSubscription = z.strictObject({
  queueId: reference,
  target,
  batchSize: z.int().min(1).max(10).optional(),
  maxConcurrency: z.int().min(1).max(100).optional(),
  state: z.enum(["active", "paused"]).optional(),
  recordAttempts: z.boolean().optional(),
});
export const updateSubscription = z.strictObject({
  target: target.optional(),
  batchSize: z.int().min(1).max(10).optional(),
  maxConcurrency: z.int().min(1).max(100).optional(),
  recordAttempts: z.boolean().optional(),
});
export const errorClass = z.enum(["http", "timeout", "connection", "refused", "tls", "message", "workflow"]);
export const attempt = z.object({
  deliveryId: z.string(),
  at: time,
  durationMs: z.int(),
  outcome: z.enum(["delivered", "failed"]),
  class: errorClass.nullable(),
  status: z.int().nullable(),
  message: z.string().nullable(),
  messageIds: z.array(z.string()),
  answer: z.string().nullable(),
});
export const subscription = z.object({
  id: z.string(),
  resourceName: z.string(),
  queueId: z.string(),
  target: z.union([
    z.object({ kind: z.literal("https"), url: z.string(), timeoutSeconds: z.int() }),
    z.object({ kind: z.literal("workflow"), mode: z.literal("start"), appId: z.string(), workflow: z.string() }),
    z.object({
      kind: z.literal("workflow"),
      mode: z.literal("resume"),
      appId: z.string(),
      workflow: z.string(),
      correlationAttribute: z.string(),
      keepUnmatchedSeconds: z.int(),
    }),
  ]),
  batchSize: z.int(),
  maxConcurrency: z.int(),
  state: z.enum(["active", "paused"]),
  recordAttempts: z.boolean(),
  status: z.object({
    health: z.enum(["healthy", "failing"]),
    lastError: z.object({ at: time, class: errorClass, status: z.int().optional(), message: z.string() }).nullable(),
    lastSuccessAt: time.nullable(),
    inFlight: z.int(),
    limit: z.int(),
    deliveriesPerMinute: z.int(),
  }),
  signingSecret: z.string().nullable(),
  createdAt: time,
  updatedAt: time,
});
export const attempts = z.object({ attempts: z.array(attempt), nextCursor: z.string().nullable() });

export const statement = z.strictObject({
  allow: z.array(z.string().min(1).max(128)).min(1).max(50),
  on: z.array(z.string().min(1).max(300)).min(1).max(50),
});
export const organization = z.object({ id: z.string(), name: z.string(), createdAt: time });
/** A7. Who (`key`), what (`operation` and `path`), from where (`address`), and what came of it. */
export const auditedCall = z.object({
  at: time,
  key: z.object({ id: z.string(), name: z.string() }),
  operation: z.string(),
  /** The name of the project that the call was about; `null`: the organization itself. */
  project: z.string().nullable(),
  path: z.string(),
  address: z.string(),
  status: z.int(),
  /** Of the error it was refused with; `null` where it was not. */
  code: z.string().nullable(),
  requestId: z.string(),
});
export const project = z.object({
  id: z.string(),
  organizationId: z.string(),
  name: z.string(),
  /** How many messages its clients may send a day, from midnight to midnight UTC; `null`: any number. */
  maxMessagesPerDay: z.int().nullable(),
  /** Of these, how many they sent today; `null` where they are not counted. */
  messagesToday: z.int().nullable(),
  createdAt: time,
});
export const updateProject = z.strictObject({ maxMessagesPerDay: z.int().min(0).max(1_000_000_000_000).nullable() });
export const createKey = z.strictObject({
  name: z.string().min(1).max(128).refine(withoutNul, "without U+0000"),
  /** What calls through the Gigadrive door mean where they name no environment. */
  environment: slug.optional(),
  statements: z.array(statement).min(1).max(50),
  expiresAt: z.iso.datetime().nullable().optional(),
});
export const key = z.object({
  id: z.string(),
  name: z.string(),
  environment: z.string().nullable(),
  statements: z.array(z.object({ allow: z.array(z.string()), on: z.array(z.string()) })),
  expiresAt: time.nullable(),
  lastUsedAt: time.nullable(),
  createdAt: time,
  /** The key itself: on create only, `null` on a repeat and everywhere else. */
  secret: z.string().nullable(),
});

/** A number as a query has it: digits and nothing else, which is less than what JavaScript reads as a number. */
export function digits(min: number, max: number) {
  return z.preprocess((text, context) => {
    if (typeof text !== "string") return text;
    if (!/^\d{1,15}$/.test(text)) context.addIssue({ code: "custom", message: "a whole number, in digits" });
    return Number(text);
  }, z.int().min(min).max(max));
}

/** A3: `cursor` is opaque; `null` ends the list. */
export function page<Name extends string, Item extends z.ZodType>(name: Name, item: Item) {
  const shape = { [name]: z.array(item), nextCursor: z.string().nullable() };
  return z.object(shape as { [key in Name]: z.ZodArray<Item> } & { nextCursor: z.ZodNullable<z.ZodString> });
}
export const paging = z.strictObject({
  limit: digits(1, 200).optional(),
  cursor: z.string().max(500).optional(),
});
