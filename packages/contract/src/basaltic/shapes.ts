/**
 * The shapes of the Basaltic front door (T1 to T13): topics, their subscriptions, publications and deliveries. Names are snake_case,
 * unknown fields are passed over, one object stands under its name. Times are ISO 8601 UTC with milliseconds, durations whole seconds.
 */
import { z } from "zod";
import * as s from "../shapes.ts";

const time = z.string();
const seconds = (min: number, max: number) => z.int().min(min).max(max);
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** What a path or a body names something by: a UUID, a name or a CRN. */
export const reference = z.string().min(1).max(512).refine(s.withoutNul, "without U+0000");
export const topicName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/, "1 to 128 of letters, digits, _ . -")
  .refine((name) => name !== "." && name !== "..", "not . or ..")
  .refine((name) => !UUID.test(name), "not of a UUID's form");

export const paging = z.object({
  limit: s.digits(1, 200).optional(),
  marker: z.string().min(1).max(1000).optional(),
});
/** `marker` asks for the page after this one; `null` on the last. */
export const meta = z.object({ total: z.int(), limit: z.int(), marker: z.string().nullable(), has_more: z.boolean() });
/** A page of `items` under their name. */
export const list = <Name extends string, Item extends z.ZodType>(name: Name, item: Item) =>
  z.object({ [name]: z.array(item), meta } as { [Key in Name]: z.ZodArray<Item> } & { meta: typeof meta });

/** T11: what is absent is inherited, from the topic and then from the platform. */
export const retryPolicy = z
  .object({
    max_attempts: z.int().min(1).max(100).optional(),
    min_delay_seconds: seconds(1, 43_200).optional(),
    max_delay_seconds: seconds(1, 43_200).optional(),
    timeout_seconds: seconds(1, 60).optional(),
    max_age_seconds: seconds(60, 1_209_600).optional(),
  })
  .refine(({ min_delay_seconds: min, max_delay_seconds: max }) => min === undefined || max === undefined || max >= min, {
    path: ["max_delay_seconds"],
    message: "at least min_delay_seconds",
  });
const displayName = z.string().max(256).refine(s.withoutNul, "without U+0000");

export const topicSettings = z.object({
  display_name: displayName.nullable().optional(),
  retry_policy: retryPolicy.nullable().optional(),
});
export const createTopic = topicSettings.extend({ name: topicName, fifo: z.boolean().optional() });
/** A topic. */
export const topicRecord = z.object({
  id: z.string(),
  crn: z.string(),
  name: z.string(),
  fifo: z.boolean(),
  display_name: z.string().nullable(),
  retry_policy: retryPolicy.nullable(),
  confirmed_subscriptions: z.int(),
  pending_subscriptions: z.int(),
  created_at: time,
  updated_at: time,
});
export const topic = z.object({ topic: topicRecord });
export const topics = list("topics", topicRecord);

type MapOf<Value extends z.ZodType> = z.ZodType<Record<string, z.output<Value>>, Record<string, z.input<Value>>>;
/** A map with any names but `__proto__`, which `z.record` would drop without a word. */
function mapOf<Value extends z.ZodType>(value: Value, name = z.string()): MapOf<Value> {
  const refuse = (given: unknown, context: z.RefinementCtx): unknown => {
    if (typeof given === "object" && given !== null && Object.hasOwn(given, "__proto__"))
      context.addIssue({ code: "custom", path: ["__proto__"], message: "of another name", input: given });
    return given;
  };
  return z.preprocess(refuse, z.record(name, value)) as unknown as MapOf<Value>;
}

/** T10: held against what is published; the server checks it and names what is wrong by its path. */
export const filterPolicy = mapOf(z.unknown());
/** T5, T10, T11, T13, T15. */
export const subscriptionSettings = z.object({
  raw_message_delivery: z.boolean().optional(),
  filter_policy: filterPolicy.nullable().optional(),
  filter_policy_scope: z.enum(["attributes", "message"]).optional(),
  retry_policy: retryPolicy.nullable().optional(),
  redrive_policy: z.object({ dead_letter_queue: reference }).nullable().optional(),
  max_in_flight: z.int().min(1).max(100).optional(),
  rate_limit: z
    .object({ count: z.int().min(1).max(100_000), period_seconds: seconds(1, 86_400) })
    .nullable()
    .optional(),
});
/** `endpoint` is a URL, or a queue by id, name or CRN. */
export const createSubscription = subscriptionSettings.extend({
  protocol: z.enum(["webhook", "queue"]),
  endpoint: z.string().min(1).max(2048).refine(s.withoutNul, "without U+0000"),
});
/** A failure: its class, the status of the answer if there was one, and what was said. */
export const lastError = z.object({ class: z.string(), status: z.int().optional(), message: z.string() });
/** A topic's subscription. */
export const subscriptionRecord = z.object({
  id: z.string(),
  crn: z.string(),
  topic_crn: z.string(),
  topic_name: z.string(),
  protocol: z.enum(["webhook", "queue"]),
  endpoint: z.string(),
  state: z.enum(["pending", "confirmed"]),
  raw_message_delivery: z.boolean(),
  filter_policy: filterPolicy.nullable(),
  filter_policy_scope: z.enum(["attributes", "message"]),
  retry_policy: retryPolicy.nullable(),
  /** `null` in `dead_letter_queue`: the queue was deleted. */
  redrive_policy: z.object({ dead_letter_queue: z.string().nullable() }).nullable(),
  max_in_flight: z.int(),
  rate_limit: z.object({ count: z.int(), period_seconds: z.int() }).nullable(),
  confirmed_at: time.nullable(),
  confirmable_until: time.nullable(),
  status: z.object({
    failing: z.boolean(),
    last_error: lastError.extend({ at: time }).nullable(),
    last_success_at: time.nullable(),
  }),
  created_at: time,
  updated_at: time,
});
export const subscription = z.object({ subscription: subscriptionRecord });
export const subscriptions = list("subscriptions", subscriptionRecord);
export const signingSecret = z.object({ signing_secret: z.object({ subscription_id: z.string(), secret: z.string() }) });

/** A value that goes with a notification: a plain text, or a value with its type. `Binary` is base64. */
export const attribute = z.union(
  [
    z.string(),
    z.object({ type: z.enum(["String", "Binary"]), value: z.string() }),
    z.object({ type: z.literal("Number"), value: z.union([z.string(), z.number()]) }),
    z.object({ type: z.literal("String.Array"), value: z.union([z.string(), z.array(z.unknown())]) }),
  ],
  { error: "text, or {type, value} of type String, Number, String.Array or Binary" },
);
/** Attributes by name. */
export const attributes = mapOf(attribute, z.string().min(1).max(256));
const printable = z.string().regex(/^[\x20-\x7e]{1,256}$/, "1 to 256 printable ASCII characters");
/** T3. `message` is an object where `message_structure` is `json`: `default`, and what a protocol gets instead. */
export const publish = z.object({
  message: z.union([z.string(), z.object({ default: z.string(), webhook: z.string().optional(), queue: z.string().optional() })], {
    error: "text, or an object of texts that has a default",
  }),
  message_structure: z.literal("json").optional(),
  subject: z.string().max(1000).refine(s.withoutNul, "without U+0000").optional(),
  attributes: attributes.optional(),
  message_group_id: printable.optional(),
  message_deduplication_id: printable.optional(),
});
/** T3: up to 10, each with a result of its own; `id` tells the results apart. */
export const publishBatch = z.object({
  entries: z
    .array(z.unknown().meta({ type: "object", description: "A publication, and an `id` of your choice that its result carries." }))
    .min(1)
    .max(10),
});
const accepted = z.object({ message_id: z.string(), accepted_at: time });
export const published = z.object({ notification: accepted });
export const publishedBatch = z.object({
  results: z.array(
    z.object({
      id: z.string(),
      notification: accepted.optional(),
      error: z.object({ code: z.string(), message: z.string() }).optional(),
    }),
  ),
});

/** T12. `dead_letter` says whether the failure's envelope was stored; `null` where there is none to store. */
export const deliveryRecord = z.object({
  id: z.string(),
  message_id: z.string(),
  subscription_id: z.string(),
  state: z.enum(["pending", "delivering", "delivered", "failed", "cancelled"]),
  attempts: z.int(),
  created_at: time,
  next_attempt_at: time.nullable(),
  delivered_at: time.nullable(),
  last_error: lastError.nullable(),
  last_status: z.int().nullable(),
  dead_letter: z.enum(["stored", "missing", "full"]).nullable(),
});
export const delivery = z.object({ delivery: deliveryRecord });
export const deliveries = list("deliveries", deliveryRecord);
export const deliveryQuery = paging.extend({ state: deliveryRecord.shape.state.optional() });

/** T4. */
export const notification = z.object({
  notification: accepted.extend({
    topic_crn: z.string(),
    topic_name: z.string(),
    state: z.enum(["accepted", "fanning_out", "complete"]),
    matched: z.int(),
    filtered_out: z.int(),
    delivered: z.int(),
    failed: z.int(),
    cancelled: z.int(),
    pending: z.int(),
  }),
});
/** What a key is asked for where an answer has nothing to say. */
export const nothingElse = z.object({}).optional();
export const subscriptionId = s.reference;
