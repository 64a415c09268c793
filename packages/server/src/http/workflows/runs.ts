/** Handlers of runs: look up and authorize on the run's workflow, then the verb. */
import type { Input, Operations } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { Caller, ProjectRow } from "../../identity/caller.ts";
import type { AppIdentity } from "../../workflow/app.ts";
import type { Reaches, Runs } from "../../workflow/run.ts";
import { wireRun } from "../../workflow/wire.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import type { Handlers } from "../handler.ts";
import { PAGE } from "./apps.ts";
import { type AppParams, appResource, type Reach, runMissing } from "./reach.ts";

type Names =
  | "StartRun"
  | "ListRuns"
  | "CancelRuns"
  | "RetryRuns"
  | "GetRun"
  | "ListSteps"
  | "GetRunInput"
  | "GetRunOutput"
  | "CancelRun"
  | "RetryRun";

type Steered = Input<Operations["CancelRuns"]>["body"];

/** The handlers of runs. */
export function runHandlers(deps: { access: Access; runs: Runs; reach: Reach }): Pick<Handlers, Names> {
  const { access, runs, reach } = deps;
  const reaches =
    (caller: Caller, { project, app }: { project: ProjectRow; app: AppIdentity }, permission: string): Reaches =>
    (workflow) =>
      access.allows(caller, permission, `${appResource(project, app.name)}/${workflow}`);
  const steer = async (caller: Caller, params: AppParams, verb: "cancel" | "retry", body: Steered) => {
    const permission = `workflows.runs.${verb}`;
    const reached = await reach.app(caller, params, null);
    const demand = (workflow: string): void =>
      access.demand(caller, permission, `${appResource(reached.project, reached.app.name)}/${workflow}`, runMissing);
    const list = `${verb} of ${reached.app.no} ${JSON.stringify(body.filter)}`;
    const before = numberOf(list, body.cursor);
    const which = { runIds: body.runIds, filter: body.filter, before };
    const { runIds, next } = await runs.steer(reached.app, verb, which, { reaches: reaches(caller, reached, permission), demand });
    return { runIds, more: next !== null, nextCursor: cursorOf(list, next) };
  };
  const numberOf = (list: string, cursor: string | undefined): number | null => {
    const place = decodeCursor(list, cursor);
    return place === null ? null : Number(place[0]);
  };
  const cursorOf = (list: string, next: number | null): string | null => (next === null ? null : encodeCursor(list, [next]));

  return {
    async StartRun({ caller, idempotency }, { params, body }) {
      const { app } = await reach.workflow(caller, params, body.workflow, "workflows.runs.start");
      return runs.start(app, body, idempotency);
    },
    async ListRuns({ caller }, { params, query: { limit = PAGE, cursor, ...filter } }) {
      const reached = await reach.app(caller, params, null);
      const list = `runs of ${reached.app.no} ${JSON.stringify(filter)}`;
      const page = { before: numberOf(list, cursor), limit };
      const { runs: shown, next } = await runs.list(reached.app, filter, page, reaches(caller, reached, "workflows.runs.list"));
      return { runs: shown, nextCursor: cursorOf(list, next) };
    },
    CancelRuns: ({ caller }, { params, body }) => steer(caller, params, "cancel", body),
    RetryRuns: ({ caller }, { params, body }) => steer(caller, params, "retry", body),
    async GetRun({ caller }, { params }) {
      const { app, run } = await reach.run(caller, params, "workflows.runs.get");
      return wireRun(app.id, run);
    },
    async ListSteps({ caller }, { params, query: { limit = PAGE, cursor } }) {
      const { project, app, run } = await reach.run(caller, params, "workflows.runs.get");
      const results = access.allows(caller, "workflows.runs.getPayload", `${appResource(project, app.name)}/${run.workflow}`);
      const list = `steps of ${run.no}`;
      const { steps, next } = await runs.steps(run, { after: numberOf(list, cursor), limit, results });
      return { steps, nextCursor: cursorOf(list, next) };
    },
    async GetRunInput({ caller }, { params }) {
      const { run } = await reach.run(caller, params, "workflows.runs.getPayload");
      return { input: await runs.payload(run, "input") };
    },
    async GetRunOutput({ caller }, { params }) {
      const { run } = await reach.run(caller, params, "workflows.runs.getPayload");
      return { output: await runs.payload(run, "output") };
    },
    async CancelRun({ caller }, { params }) {
      const { app, run } = await reach.run(caller, params, "workflows.runs.cancel");
      return runs.cancel(app, run);
    },
    async RetryRun({ caller }, { params }) {
      const { app, run } = await reach.run(caller, params, "workflows.runs.retry");
      return runs.retry(app, run);
    },
  };
}
