/**
 * Brings an environment's queues and schedules to what a file or a deployment declares (C10, C7). First everything is compared and
 * checked, so that a fault changes nothing; then each queue and schedule is changed by its own verbs. Applying twice changes nothing.
 */
import { type DeclaredQueue, type DeclaredSchedule, Fault, invalid, readDeclaredQueues } from "@millrace/contract";
import type { Queues } from "../queue/queue.ts";
import type { ScheduleRow, Schedules } from "../schedule/schedule.ts";
import type { QueueRow, QueueSettings } from "../store/types.ts";
import { settingNames, settingsChanged } from "./difference.ts";

/** One thing of a plan: what happens to it, and for a change the settings it is about, as the file names them. */
export interface Change {
  kind: "queue" | "schedule";
  queue: string;
  /** The schedule's name, or the queue's again. */
  name: string;
  action: "create" | "change" | "unchanged" | "remove";
  fields: string[];
}
interface Step {
  change: Change;
  run: () => Promise<unknown>;
}
/** Where queues are declared for. */
interface Target {
  projectNo: number;
  environment: string;
}

/** A plan that was checked: `apply` does what `changes` says, in order. */
export interface Plan {
  changes: Change[];
  apply(): Promise<void>;
}

export interface Provision {
  /**
   * Compares a section of queues with what is there. `prune` removes queues and schedules that a file made and that this one no longer
   * names; without it nothing is removed. Throws `invalid_request` with a path such as `queues.emails.retention`.
   */
  plan(target: Target, section: unknown, prune: boolean, field: string): Promise<Plan>;
}

const PAGE = 1_000;
const FIELDS = ["cron", "timezone", "body", "contentType", "headers", "enabled"] as const;

/** How many of the queues in `byNo` a queue's dead letters may go on to. */
function letterQueuesBehind(queue: QueueRow, byNo: ReadonlyMap<number | null, QueueRow>): number {
  let count = -1;
  for (let at: QueueRow | undefined = queue; at !== undefined; count++) at = byNo.get(at.settings.deadLetterNo);
  return count;
}

/** Makes the planner. `find` is a queue of an environment by name, `refresh` tells its lane. */
export function createProvision(deps: {
  queues: Queues;
  schedules: Schedules;
  find: (projectNo: number, reference: string, environment?: string) => Promise<QueueRow | null>;
  refresh: (queueNo: number) => Promise<void>;
}): Provision {
  const { queues, schedules, find, refresh } = deps;

  const planQueue = async (target: Target, declared: DeclaredQueue, present: QueueRow | null, path: string): Promise<Step> => {
    const { projectNo, environment } = target;
    const { name, type, database, deadLetterQueue } = declared;
    if (present !== null && type !== undefined && type !== present.type)
      throw invalid(`${path}.type`, `the queue's own, which is ${present.type}: it can't change`, type);
    if (present !== null && database !== undefined && database !== present.database)
      throw invalid(`${path}.database`, `the queue's own, which is ${present.database}: a queue does not move`, database);
    const linkOf = async () =>
      typeof deadLetterQueue === "string" ? ((await find(projectNo, deadLetterQueue, environment))?.no ?? null) : null;
    const changeOf = async (): Promise<Partial<QueueSettings>> => settingsChanged(declared, present, await linkOf());
    const change = await changeOf();
    const { retryBackoffMinMs: min, retryBackoffMaxMs: max } = { ...present?.settings, ...change };
    if (min != null && max != null && min > max)
      throw invalid(`${path}.retryBackoff`, "a min of at most max", `${min / 1000} > ${max / 1000}`);
    const fields = present === null ? [] : settingNames(change);
    const action = present === null ? "create" : fields.length === 0 ? "unchanged" : "change";
    return {
      change: { kind: "queue", queue: name, name, action, fields },
      async run() {
        if (action === "unchanged") return;
        // The dead-letter queue may have been made a step before.
        const settings = await changeOf();
        const queue =
          present === null
            ? await queues.make(
                { projectNo, environment, name, type: type ?? "standard", database, settings: settings as QueueSettings, source: "config" },
                null,
              )
            : await queues.change(present, settings);
        if (queue.settings.consumerPath !== null || present?.settings.consumerPath != null) await refresh(queue.no);
      },
    };
  };

  const planSchedule = (
    target: Target,
    queue: Pick<QueueRow, "type" | "name">,
    given: DeclaredSchedule,
    present: ScheduleRow | null,
    path: string,
  ): Step => {
    let fields: string[];
    try {
      const wanted = schedules.check(queue, given, present);
      fields = present === null ? [] : FIELDS.filter((field) => JSON.stringify(wanted[field]) !== JSON.stringify(present[field]));
    } catch (error) {
      if (error instanceof Fault && error.details?.path !== undefined)
        throw invalid(`${path}.${error.details.path}`, error.details.bound ?? "not valid", error.details.got);
      throw error;
    }
    const action = present === null ? "create" : fields.length === 0 ? "unchanged" : "change";
    return {
      change: { kind: "schedule", queue: queue.name, name: given.name, action, fields },
      async run() {
        if (action === "unchanged") return;
        const row = await find(target.projectNo, queue.name, target.environment);
        if (row === null) throw new Fault("queue_not_found", `the queue ${queue.name} was deleted meanwhile`);
        if (present === null) await schedules.create(row, { ...given, source: "config" }, null);
        else await schedules.update(row, given.name, { ...given, source: "config" });
      },
    };
  };

  /** The database that a queue is on, or will be. */
  const placeOf = (declared: DeclaredQueue | undefined, present: QueueRow | null): string =>
    present?.database ?? declared?.database ?? (queues.databases[0] as string);

  return {
    async plan(target, section, prune, field) {
      const { queues: declared, problems } = readDeclaredQueues(section);
      const [problem] = problems;
      if (problem !== undefined) throw invalid([field, ...problem.path].join("."), problem.message);
      const steps: Step[] = [];
      for (const one of declared) {
        const path = `${field}.${one.name}`;
        const present = await find(target.projectNo, one.name, target.environment);
        const database = placeOf(one, present);
        if (!queues.databases.includes(database)) throw invalid(`${path}.database`, `one of ${queues.databases.join(", ")}`, database);
        if (typeof one.deadLetterQueue === "string") {
          const letters = declared.find(({ name }) => name === one.deadLetterQueue);
          const there = await find(target.projectNo, one.deadLetterQueue, target.environment);
          if (letters === undefined && there === null)
            throw invalid(`${path}.deadLetterQueue`, "a queue that is there or declared here", one.deadLetterQueue);
          const beside = placeOf(letters, there);
          if (beside !== database)
            throw invalid(`${path}.deadLetterQueue`, `a queue on the database ${database}, as this one is`, `one on ${beside}`);
          const type = there?.type ?? letters?.type ?? "standard";
          if ((present?.type ?? one.type) === "fifo" && type !== "fifo")
            throw invalid(`${path}.deadLetterQueue`, "a FIFO queue, as this queue is one", type);
        }
        steps.push(await planQueue(target, one, present, path));
        if (one.schedules === undefined) continue;
        const there = present === null ? [] : (await schedules.list(present, { offset: 0, limit: PAGE })).items;
        for (const given of one.schedules) {
          const before = there.find(({ name }) => name === given.name) ?? null;
          const queue = { name: one.name, type: present?.type ?? one.type ?? "standard" };
          steps.push(planSchedule(target, queue, given, before, `${path}.schedules.${given.name}`));
        }
        if (!prune || present === null) continue;
        for (const { name, source } of there) {
          if (source !== "config" || one.schedules.some((given) => given.name === name)) continue;
          steps.push({
            change: { kind: "schedule", queue: one.name, name, action: "remove", fields: [] },
            run: () => schedules.delete(present, name),
          });
        }
      }
      if (prune) {
        const kept = new Set(declared.map(({ name }) => name));
        const made = await queues.all(target.projectNo, target.environment, ({ name, source }) => source === "config" && !kept.has(name));
        const byNo = new Map(made.map((queue) => [queue.no, queue]));
        // A queue is removed before the one that its dead letters go to.
        for (const queue of made.sort((a, b) => letterQueuesBehind(b, byNo) - letterQueuesBehind(a, byNo)))
          steps.push({
            change: { kind: "queue", queue: queue.name, name: queue.name, action: "remove", fields: [] },
            async run() {
              await queues.delete(queue);
              if (queue.settings.consumerPath !== null) await refresh(queue.no);
            },
          });
      }
      return {
        changes: steps.map(({ change }) => change),
        async apply() {
          for (const { run } of steps) await run();
        },
      };
    },
  };
}
