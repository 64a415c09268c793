/** What can be asked of runs through the API (W3): start, look at, cancel and retry, one or many. */
import { Fault, invalid } from "@millrace/contract";
import { uuidv7 } from "uuidv7";
import type { NewRun } from "../store/begin-run.ts";
import type { RequestedRun, RunRequest } from "../store/run.ts";
import type { RunFilter } from "../store/run-list.ts";
import type { RunRow, RunStatus } from "../store/run-rows.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey } from "../store/types.ts";
import type { AppIdentity } from "./app-memory.ts";
import { coalesce } from "./coalesce.ts";
import { payloadBytes, payloadOf } from "./rules.ts";
import { type WireRun, type WireStep, wireRun, wireStep } from "./wire.ts";

export type { RunRow };

/** How many runs one page of a list reads at once, and how often, to find those that fit and are in the key's reach. */
const STRIDE = 200;
const STRIDES = 10;
/** How many runs one call changes by a filter, and how many in one transaction. */
const STEERED = 1_000;
const STEERED_AT_ONCE = 100;
/** How starts that come at the same time travel to the store: what comes meanwhile waits, for fewer and larger transactions cost less. */
const STARTS = { most: 100, width: 1 };

/** Which runs, as the contract's shape has it; instants as ISO texts. */
export interface GivenFilter {
  status?: RunStatus | undefined;
  workflow?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
  text?: string | undefined;
}

/** Which workflows of an app a key reaches with the permission at hand. */
export type Reaches = (workflow: string) => boolean;

export interface Runs {
  start(
    app: AppIdentity,
    given: { workflow: string; input?: unknown; runId?: string | undefined; timeoutSeconds?: number | undefined },
    key: IdempotencyKey | null,
  ): Promise<WireRun>;
  /** `null` when there is none. */
  find(app: AppIdentity, id: string): Promise<RunRow | null>;
  /** Newest first, from before number `before` on, of those that `reaches` lets through: only `next: null` ends the list. */
  list(
    app: AppIdentity,
    filter: GivenFilter,
    page: { before: number | null; limit: number },
    reaches: Reaches,
  ): Promise<{ runs: WireRun[]; next: number | null }>;
  steps(run: RunRow, page: { after: number | null; limit: number; results: boolean }): Promise<{ steps: WireStep[]; next: number | null }>;
  payload(run: RunRow, which: "input" | "output"): Promise<unknown>;
  cancel(app: AppIdentity, run: RunRow): Promise<WireRun>;
  retry(app: AppIdentity, run: RunRow): Promise<WireRun>;
  /**
   * Cancels or retries what can be; of a filter's runs the newest 1,000 that `reaches` lets through, from before number `before` on, where
   * only `next: null` is the end. A retry passes over completed runs unless they are asked for. `demand` throws for a named run of a
   * workflow that `reaches` does not let through.
   */
  steer(
    app: AppIdentity,
    verb: "cancel" | "retry",
    which: { runIds?: string[] | undefined; filter?: GivenFilter | undefined; before?: number | null },
    may: { reaches: Reaches; demand: (workflow: string) => void },
  ): Promise<{ runIds: string[]; next: number | null }>;
}

function filterOf({ since, until, ...given }: GivenFilter): RunFilter {
  const filter: RunFilter = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  if (since !== undefined) filter.since = Date.parse(since);
  if (until !== undefined) filter.until = Date.parse(until);
  return filter;
}

/** Makes the verbs of runs. */
export function createRuns({ store, newId = uuidv7 }: { store: Store; newId?: () => string }): Runs {
  const request = coalesce<RunRequest, RequestedRun>((requests) => store.run("requestRuns", requests), STARTS);
  const walk = async (
    app: AppIdentity,
    filter: RunFilter,
    page: { before: number | null; limit: number },
    reaches: Reaches,
  ): Promise<{ runs: RunRow[]; next: number | null }> => {
    const runs: RunRow[] = [];
    let before = page.before;
    for (let stride = 0; stride < STRIDES; stride++) {
      const { runs: some, next } = await store.run("listRuns", app.no, { filter, before, limit: STRIDE });
      for (const run of some) {
        if (!reaches(run.workflow)) continue;
        runs.push(run);
        if (runs.length === page.limit) return { runs, next: run === some.at(-1) ? next : run.no };
      }
      if (next === null) return { runs, next: null };
      before = next;
    }
    return { runs, next: before };
  };

  return {
    async start(app, { workflow, input, runId, timeoutSeconds }, key) {
      const given: NewRun = {
        id: runId ?? newId(),
        workflow,
        input: payloadBytes("input", input),
        source: { kind: "api" },
        timeoutMs: timeoutSeconds === undefined ? null : timeoutSeconds * 1000,
      };
      const answer = await request({ appNo: app.no, given, key });
      if ("refused" in answer) throw new Fault(answer.refused, answer.message);
      return wireRun(app.id, answer.run);
    },
    find: (app, id) => store.run("getRun", app.no, id),
    async list(app, filter, page, reaches) {
      if (filter.since !== undefined && filter.until !== undefined && filter.since > filter.until)
        throw invalid("until", "not before since", filter.until);
      const { runs, next } = await walk(app, filterOf(filter), page, reaches);
      return { runs: runs.map((run) => wireRun(app.id, run)), next };
    },
    async steps(run, page) {
      const { steps, next } = await store.run("listSteps", run.no, page);
      return { steps: steps.map(wireStep), next };
    },
    async payload(run, which) {
      return payloadOf(await store.run("getPayload", run.no, which));
    },
    cancel: async (app, run) => wireRun(app.id, await store.run("cancelRun", run.no)),
    retry: async (app, run) => wireRun(app.id, await store.run("retryRun", run.no)),
    async steer(app, verb, { runIds, filter, before = null }, { reaches, demand }) {
      const nos: number[] = [];
      let next: number | null = null;
      if (filter !== undefined) {
        const found = await walk(app, filterOf(filter), { before, limit: STEERED }, reaches);
        const meant = ({ status }: RunRow): boolean => verb === "cancel" || filter.status !== undefined || status !== "completed";
        nos.push(...found.runs.filter(meant).map(({ no }) => no));
        next = found.next;
      }
      for (const id of runIds ?? []) {
        const run = await store.run("getRun", app.no, id);
        if (run === null) throw new Fault("run_not_found", `there is no run ${id} in this app`);
        demand(run.workflow);
        nos.push(run.no);
      }
      const done: string[] = [];
      for (let from = 0; from < nos.length; from += STEERED_AT_ONCE)
        done.push(...(await store.run("steerRuns", verb, nos.slice(from, from + STEERED_AT_ONCE))));
      return { runIds: done, next };
    },
  };
}
