/**
 * What can be done with a queue's schedules (C9), and the chore that runs them. Occurrences are reckoned from the store's instant, so
 * that every node finds the same ones.
 */
import { uuidv7 } from "uuidv7";
import { checkGigadriveMessage } from "../queue/gigadrive-rules.ts";
import type { Chore } from "../queue/housekeeping.ts";
import type { DueSchedule, ScheduleFields, ScheduleRow, ScheduleRun } from "../store/schedule.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey, QueueRow } from "../store/types.ts";
import { checkWhen, dueRun, nextRun } from "./rules.ts";

export type { ScheduleRow } from "../store/schedule.ts";

/** What a caller gives of a schedule; what is absent stays, or is the default of a new one. */
export interface GivenSchedule {
  cron?: string | undefined;
  timezone?: string | undefined;
  body?: string | undefined;
  contentType?: string | null | undefined;
  headers?: Record<string, string> | null | undefined;
  enabled?: boolean | undefined;
}

export interface Schedules {
  /** Makes a schedule. Throws `schedule_exists`, `invalid_request`. */
  create(
    queue: QueueRow,
    given: GivenSchedule & { name: string; cron: string; source: ScheduleRow["source"] },
    key: IdempotencyKey | null,
  ): Promise<ScheduleRow>;
  /** Changes what is given. A changed time, or switching on, starts afresh from now. Throws `schedule_not_found`, `invalid_request`. */
  update(queue: QueueRow, name: string, given: GivenSchedule & { source?: ScheduleRow["source"] }): Promise<ScheduleRow>;
  /** Throws `schedule_not_found`. */
  delete(queue: QueueRow, name: string): Promise<void>;
  list(queue: QueueRow, page: { offset: number; limit: number }): Promise<{ items: ScheduleRow[]; total: number }>;
  /** Checks a schedule's fields and fills in the defaults. Throws `invalid_request`. */
  check(queue: Pick<QueueRow, "type">, given: GivenSchedule, before: ScheduleFields | null): ScheduleFields;
}

/** The chore's name, to be nudged when a schedule is made or changed. */
const CHORE = "schedules";
/** How many schedules one transaction runs at most. */
const ROWS = 50;
/** Another node's new schedule is found within this time, should that node be gone. */
const LOOK_MS = 15_000;
const TEXT = "text/plain; charset=utf-8";

/** Makes the verbs. `maxMessageBytes` is the server's bound on a message (Q5); `work` is told the chore that has something to do. */
export function createSchedules(deps: { store: Store; maxMessageBytes: number; work: (chore: string) => void }): Schedules {
  const { store, maxMessageBytes, work } = deps;

  const check: Schedules["check"] = (queue, given, before) => {
    const cron = (given.cron ?? before?.cron ?? "").trim();
    const timezone = given.timezone ?? before?.timezone ?? "UTC";
    checkWhen(cron, timezone);
    const body = given.body ?? before?.body ?? "";
    // A content type among new headers counts for more than one that is only kept.
    const typed = Object.keys(given.headers ?? {}).some((name) => name.toLowerCase() === "content-type");
    const keptType = typed ? null : (before?.contentType ?? null);
    const checked = checkGigadriveMessage(
      {
        body,
        contentType: given.contentType === undefined ? keptType : given.contentType,
        headers: given.headers === undefined ? (before?.headers ?? {}) : given.headers,
        groupKey: queue.type === "fifo" ? "-" : null,
      },
      queue,
      { maxBytes: maxMessageBytes, now: 0 },
    );
    return {
      cron,
      timezone,
      body,
      contentType: checked.contentType ?? TEXT,
      headers: { ...checked.attributes },
      enabled: given.enabled ?? before?.enabled ?? true,
    };
  };
  const nextOf = async ({ cron, timezone, enabled }: ScheduleFields): Promise<number | null> =>
    enabled ? nextRun(cron, timezone, await store.run("now")) : null;

  return {
    check,
    async create(queue, given, key) {
      const fields = check(queue, given, null);
      const { name, source } = given;
      const row = { ...fields, id: uuidv7(), projectNo: queue.projectNo, queueNo: queue.no, name, source, nextAt: await nextOf(fields) };
      const { result } = await store.once(key, "createSchedule", row);
      work(CHORE);
      return result;
    },
    async update(queue, name, given) {
      for (;;) {
        const before = await store.run("getSchedule", queue.no, name);
        const fields = check(queue, given, before);
        const afresh = fields.cron !== before.cron || fields.timezone !== before.timezone || fields.enabled !== before.enabled;
        const next = afresh ? await nextOf(fields) : undefined;
        const changed = await store.run("updateSchedule", before, { ...fields, source: given.source ?? before.source }, next);
        // Somebody else changed it between the two; a change is short, so this ends.
        if (changed === null) continue;
        work(CHORE);
        return changed;
      }
    },
    async delete(queue, name) {
      await store.run("deleteSchedule", queue.no, name);
    },
    list: (queue, page) => store.run("listSchedules", queue.no, page),
  };
}

/** The run of a due schedule. One that can't be read any more says so, and keeps no other from running. */
function reckoned({ no, queueNo, cron, timezone, pendingAt }: DueSchedule, now: number): ScheduleRun {
  try {
    return { no, queueNo, pendingAt, ...dueRun(cron, timezone, pendingAt, now) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { no, queueNo, pendingAt, error: `invalid_request: ${cron} in ${timezone} can't be read: ${why}` };
  }
}

/** The chore that sends what is due. */
export function scheduleChore(store: Store): Chore {
  return {
    name: CHORE,
    everyMs: LOOK_MS,
    async run(own = store) {
      const { now, due, nextInMs } = await own.run("dueSchedules", ROWS);
      if (due.length === 0) return nextInMs;
      await own.run(
        "runSchedules",
        due.map((schedule) => reckoned(schedule, now)),
      );
      return 0;
    },
  };
}
