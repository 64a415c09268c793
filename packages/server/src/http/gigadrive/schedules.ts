/** Handlers of schedules: look the queue up and authorize, then the schedule's verbs. */
import type { Answer, Operations } from "@millrace/contract";
import { isoTime } from "../../queue/settings.ts";
import type { ScheduleRow, Schedules } from "../../schedule/schedule.ts";
import type { Handlers } from "../handler.ts";
import type { Places } from "./place.ts";
import { PAGE } from "./queues.ts";

type Names = "ListSchedules" | "CreateSchedule" | "UpdateSchedule" | "DeleteSchedule";

const orNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms));

const show = (row: ScheduleRow): Answer<Operations["CreateSchedule"]> => ({
  id: row.id,
  name: row.name,
  cron: row.cron,
  timezone: row.timezone,
  body: row.body,
  contentType: row.contentType,
  headers: row.headers,
  enabled: row.enabled,
  nextRunAt: orNull(row.nextAt),
  lastRunAt: orNull(row.lastAt),
  lastMessageId: row.lastMessageId,
  lastError: row.lastError,
  source: row.source,
});

/** The handlers of schedules. */
export function scheduleHandlers(deps: { places: Places; schedules: Schedules }): Pick<Handlers, Names> {
  const { places, schedules } = deps;
  return {
    async ListSchedules({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.schedules.list");
      const { items, total } = await schedules.list(queue, { offset: query.offset ?? 0, limit: query.limit ?? PAGE });
      return { items: items.map(show), total };
    },
    async CreateSchedule({ caller, idempotency }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.schedules.create");
      return show(await schedules.create(queue, { ...body, source: "api" }, idempotency));
    },
    async UpdateSchedule({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.schedules.update");
      return show(await schedules.update(queue, params.scheduleName, body));
    },
    async DeleteSchedule({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.schedules.delete");
      await schedules.delete(queue, params.scheduleName);
      return { deleted: true };
    },
  };
}
