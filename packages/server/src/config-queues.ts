/**
 * The queues that a `millrace.yaml` declares (`services.queues.<name>`), as the API takes their settings. What is not named stays as it
 * is on the server; what this version cannot apply is listed, not refused, so that a file written for more still works.
 */
import { readFileSync } from "node:fs";
import { type Input, nearest, type Operations, shapes } from "@millrace/contract";
import { parseDocument } from "yaml";
import { z } from "zod";

type Settings = Input<Operations["UpdateQueue"]>["body"];

export interface DeclaredQueue {
  name: string;
  /** Only for its making: a queue's type never changes. */
  type: "standard" | "fifo" | undefined;
  settings: Settings;
}

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** `2m`, `12h` or a number of seconds; whole seconds come out. */
const duration = z.union([z.number(), z.string()]).transform((given, context) => {
  const match = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(String(given));
  const seconds = match === null ? Number.NaN : Number(match[1]) * (unitSeconds[match[2] || "s"] ?? 1);
  if (Number.isInteger(seconds)) return seconds;
  context.addIssue({ code: "custom", message: "must be whole seconds or a duration such as 90s, 10m, 12h or 3d" });
  return z.NEVER;
});

const declared = z.strictObject({
  type: z.enum(["standard", "fifo"]).optional(),
  visibilityTimeout: duration.optional(),
  retention: duration.optional(),
  delay: duration.optional(),
  deduplicationWindow: duration.optional(),
  contentBasedDeduplication: z.boolean().optional(),
  rateLimit: z.strictObject({ count: z.int(), period: duration }).nullable().optional(),
  retryBackoff: z.strictObject({ min: duration, max: duration }).nullable().optional(),
  deadLetterQueue: z.string().nullable().optional(),
  maxAttempts: z.int().optional(),
  paused: z.boolean().optional(),
});
/** Declared by other doors; left alone here. */
const notYet = ["consumer", "concurrency", "deadLetter", "schedules"];

function settingsOf(given: z.output<typeof declared>): Settings {
  const { deadLetterQueue, maxAttempts, rateLimit, retryBackoff } = given;
  return {
    visibilityTimeoutSeconds: given.visibilityTimeout,
    retentionSeconds: given.retention,
    delaySeconds: given.delay,
    deduplicationWindowSeconds: given.deduplicationWindow,
    contentBasedDeduplication: given.contentBasedDeduplication,
    rateLimit: rateLimit == null ? rateLimit : { count: rateLimit.count, periodSeconds: rateLimit.period },
    retryBackoffMinSeconds: retryBackoff == null ? retryBackoff : retryBackoff.min,
    retryBackoffMaxSeconds: retryBackoff == null ? retryBackoff : retryBackoff.max,
    redrivePolicy: deadLetterQueue == null ? deadLetterQueue : { deadLetterQueueId: deadLetterQueue, maxReceiveCount: maxAttempts ?? 10 },
    paused: given.paused,
  };
}

function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>)[key] : undefined;
}

/** Reads the queues of a file. Dead-letter queues come before those that name them. `problems` has one sentence per fault. */
export function readQueues(path: string): { queues: DeclaredQueue[]; left: string[]; problems: string[] } {
  const queues: DeclaredQueue[] = [];
  const left: string[] = [];
  const problems: string[] = [];
  const document = parseDocument(readFileSync(path, "utf8"));
  const fault = document.errors[0];
  if (fault !== undefined) return { queues, left, problems: [`${path}: is not valid YAML: ${fault.message.split("\n")[0]}`] };
  const section = member(member(document.toJS(), "services"), "queues");
  if (section === undefined || section === null) return { queues, left, problems };
  if (typeof section !== "object" || Array.isArray(section))
    return { queues, left, problems: ["services.queues: must be a map of queues"] };
  for (const [name, raw] of Object.entries(section)) {
    const at = `services.queues.${name}`;
    if (!shapes.queueName.safeParse(name).success) problems.push(`${at}: a queue's name has 1 to 128 of letters, digits, _ . : -`);
    const known = Object.fromEntries(Object.entries(raw ?? {}).filter(([key]) => !notYet.includes(key)));
    left.push(
      ...Object.keys(raw ?? {})
        .filter((key) => notYet.includes(key))
        .map((key) => `${at}.${key}`),
    );
    const parsed = declared.safeParse(known);
    if (parsed.success) queues.push({ name, type: parsed.data.type, settings: settingsOf(parsed.data) });
    else {
      for (const issue of parsed.error.issues) {
        const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
        const meant = unknown === undefined ? undefined : nearest(unknown, [...Object.keys(declared.shape), ...notYet]);
        if (unknown !== undefined)
          problems.push(`${at}.${unknown}: no such setting${meant === undefined ? "" : `; did you mean ${meant}?`}`);
        else problems.push(`${[at, ...issue.path].join(".")}: ${issue.message}`);
      }
    }
  }
  const deadLetters = new Set(queues.map(({ settings }) => settings.redrivePolicy?.deadLetterQueueId));
  return {
    queues: [...queues.filter(({ name }) => deadLetters.has(name)), ...queues.filter(({ name }) => !deadLetters.has(name))],
    left,
    problems,
  };
}
