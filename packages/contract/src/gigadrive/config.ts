/**
 * The queues that a file declares (C10), read into what the door takes: durations become whole seconds, and every fault is told with
 * the path to it. What is not named stays as it is on the server. Pure: the file is somebody else's.
 */
import { z } from "zod";
import { nearest } from "../nearest.ts";
import * as s from "../shapes.ts";
import * as g from "./shapes.ts";

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** `2m`, `12h` or a number of seconds; whole seconds from `min` to `max` come out. */
const duration = (min: number, max: number) =>
  z.unknown().transform((given, context) => {
    const match = typeof given === "string" || typeof given === "number" ? /^(\d+(?:\.\d+)?)\s*([smhd]?)$/.exec(String(given)) : null;
    // 1.1 × 60 is a trace more than 66.
    const seconds = match === null ? Number.NaN : Number((Number(match[1]) * (unitSeconds[match[2] || "s"] as number)).toFixed(6));
    if (Number.isInteger(seconds) && seconds >= min && seconds <= max) return seconds;
    const bound = Number.isInteger(seconds)
      ? `must be from ${min} to ${max} seconds, got ${seconds}`
      : "must be whole seconds or a duration such as 90s, 10m, 12h or 3d";
    context.addIssue({ code: "custom", message: bound });
    return z.NEVER;
  });

const schedule = z.strictObject({
  cron: g.createSchedule.shape.cron,
  timezone: g.createSchedule.shape.timezone,
  body: z.string().optional(),
  json: z.unknown().optional(),
  contentType: g.createSchedule.shape.contentType,
  headers: g.createSchedule.shape.headers,
  enabled: z.boolean().optional(),
});
const queue = z.strictObject({
  type: z.enum(["standard", "fifo"]).optional(),
  database: s.databaseName.optional(),
  consumer: g.consumerPath.nullable().optional(),
  maxAttempts: g.queueSettings.shape.maxAttempts,
  visibilityTimeout: duration(1, 43_200).optional(),
  retention: duration(60, 1_209_600).optional(),
  delay: duration(0, 31_536_000).optional(),
  deduplicationWindow: duration(0, 604_800).optional(),
  contentBasedDeduplication: z.boolean().optional(),
  concurrency: g.queueSettings.shape.concurrency,
  rateLimit: z
    .strictObject({ count: z.int().min(1).max(100_000), period: duration(1, 86_400) })
    .nullable()
    .optional(),
  deadLetter: z.boolean().optional(),
  deadLetterQueue: s.queueName.nullable().optional(),
  retryBackoff: z
    .strictObject({ min: duration(1, 43_200).optional(), max: duration(1, 43_200).optional() })
    .nullable()
    .optional(),
  paused: z.boolean().optional(),
  schedules: z.record(z.string(), schedule).nullable().optional(),
});

/** A declared queue in the door's fields. `deadLetterQueue`: another queue by name; `schedules` `undefined`: nothing is said of them. */
export interface DeclaredQueue {
  name: string;
  /** Only for its making: a queue's type never changes. */
  type: "standard" | "fifo" | undefined;
  /** Only for its making, too. */
  database: string | undefined;
  settings: Omit<z.output<typeof g.queueSettings>, "environment">;
  deadLetterQueue: string | null | undefined;
  schedules: DeclaredSchedule[] | undefined;
}
/** A declared schedule; its body is text. */
export interface DeclaredSchedule {
  name: string;
  cron: string;
  timezone: string | undefined;
  body: string | undefined;
  contentType: string | null | undefined;
  headers: Record<string, string> | null | undefined;
  enabled: boolean | undefined;
}
/** What is wrong, and where in the section: names from the outside in. */
export interface DeclaredProblem {
  path: string[];
  message: string;
}

/** Leaves out what is not named: absent keeps what is there. */
const named = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;

function settingsOf(given: z.output<typeof queue>): DeclaredQueue["settings"] {
  const { rateLimit, retryBackoff } = given;
  return named({
    consumerPath: given.consumer,
    maxAttempts: given.maxAttempts,
    visibilityTimeoutSeconds: given.visibilityTimeout,
    retentionSeconds: given.retention,
    delaySeconds: given.delay,
    deduplicationWindowSeconds: given.deduplicationWindow,
    contentBasedDeduplication: given.contentBasedDeduplication,
    concurrency: given.concurrency,
    rateLimit: rateLimit == null ? rateLimit : { count: rateLimit.count, periodSeconds: rateLimit.period },
    deadLetter: given.deadLetter,
    retryBackoffMinSeconds: retryBackoff === null ? null : retryBackoff?.min,
    retryBackoffMaxSeconds: retryBackoff === null ? null : retryBackoff?.max,
    paused: given.paused,
  });
}

function scheduleOf(name: string, { json, body, contentType, ...same }: z.output<typeof schedule>): DeclaredSchedule {
  const text = json === undefined ? body : JSON.stringify(json);
  return {
    name,
    cron: same.cron,
    timezone: same.timezone,
    body: text,
    contentType: contentType ?? (json === undefined ? undefined : "application/json"),
    headers: same.headers,
    enabled: same.enabled,
  };
}

/** The names that an object at this path may have. */
function namesAt(path: readonly string[]): string[] {
  if (path.length === 0) return Object.keys(queue.shape);
  if (path[0] === "schedules") return Object.keys(schedule.shape);
  return path[0] === "rateLimit" ? ["count", "period"] : ["min", "max"];
}

/** The queues, each behind the one that its dead letters go to; where they would come back is a problem. */
function inOrder(queues: readonly DeclaredQueue[], problems: DeclaredProblem[]): DeclaredQueue[] {
  const byName = new Map(queues.map((queue) => [queue.name, queue]));
  const named = new Set(queues.map(({ deadLetterQueue }) => deadLetterQueue));
  const ordered = new Set<DeclaredQueue>();
  for (const first of [...queues.filter(({ name }) => named.has(name)), ...queues]) {
    const chain = new Set<DeclaredQueue>();
    let at: DeclaredQueue | undefined = first;
    while (at !== undefined && !ordered.has(at) && !chain.has(at)) {
      chain.add(at);
      at = at.deadLetterQueue == null ? undefined : byName.get(at.deadLetterQueue);
    }
    if (at !== undefined && chain.has(at))
      problems.push({ path: [at.name, "deadLetterQueue"], message: "a queue whose own dead letters don't come back here" });
    for (const queue of [...chain].reverse()) ordered.add(queue);
  }
  return [...ordered];
}

/** Reads a section of queues by name. Queues that others name as their dead-letter queue come first. */
export function readDeclaredQueues(section: unknown): { queues: DeclaredQueue[]; problems: DeclaredProblem[] } {
  const queues: DeclaredQueue[] = [];
  const problems: DeclaredProblem[] = [];
  if (section === undefined || section === null) return { queues, problems };
  if (typeof section !== "object" || Array.isArray(section))
    return { queues, problems: [{ path: [], message: "must be a map of queues by name" }] };
  for (const [name, raw] of Object.entries(section)) {
    const fault = (path: readonly PropertyKey[], message: string) => problems.push({ path: [name, ...path.map(String)], message });
    const nameFault = s.queueName.safeParse(name).error?.issues[0];
    if (nameFault !== undefined) fault([], `a queue's name: ${nameFault.message}`);
    const { data, error } = queue.safeParse(raw ?? {});
    for (const issue of error?.issues ?? []) {
      if (issue.code !== "unrecognized_keys") fault(issue.path, issue.message);
      else
        for (const key of issue.keys) {
          const meant = nearest(key, namesAt(issue.path.map(String)));
          fault([...issue.path, key], `no such setting${meant === undefined ? "" : `; did you mean ${meant}?`}`);
        }
    }
    if (data === undefined) continue;
    if (data.deadLetter === false && typeof data.deadLetterQueue === "string")
      fault(["deadLetterQueue"], "a dead-letter queue, or deadLetter: false, not both");
    const { retryBackoff } = data;
    if (retryBackoff?.min !== undefined && retryBackoff.max !== undefined && retryBackoff.min > retryBackoff.max)
      fault(["retryBackoff", "min"], "must be at most max");
    for (const [own, given] of Object.entries(data.schedules ?? {})) {
      const issue = s.queueName.safeParse(own).error?.issues[0];
      if (issue !== undefined) fault(["schedules", own], `a schedule's name: ${issue.message}`);
      if (given.json !== undefined && given.body !== undefined) fault(["schedules", own, "json"], "json or body, not both");
    }
    const schedules =
      data.schedules == null ? data.schedules : Object.entries(data.schedules).map(([own, given]) => scheduleOf(own, given));
    queues.push({
      name,
      type: data.type,
      database: data.database,
      settings: settingsOf(data),
      deadLetterQueue: data.deadLetterQueue,
      schedules: schedules ?? undefined,
    });
  }
  return { queues: inOrder(queues, problems), problems };
}
