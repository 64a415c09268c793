/** The handler of pull workers: look up and authorize, then wait for tasks. What never reaches its worker is given back. */
import { type Answer, invalid, type Operations } from "@millrace/contract";
import { protocolVersion } from "@millrace/contract/wire";
import type { WorkflowEngine } from "../../workflow/engine.ts";
import type { Handlers } from "../handler.ts";
import type { Reach } from "./reach.ts";

/** The handlers of tasks. */
export function taskHandlers({
  reach,
  engine,
}: {
  reach: Reach;
  engine: Pick<WorkflowEngine, "poll" | "executions">;
}): Pick<Handlers, "PollTasks"> {
  return {
    async PollTasks(call, { params, body }): Promise<Answer<Operations["PollTasks"]>> {
      const { app } = await reach.app(call.caller, params, "workflows.apps.work");
      if (app.mode !== "pull") throw invalid("appId", "must be a pull app: a push app is called at its URL");
      const { max, waitSeconds, ...announcement } = body;
      const tasks = await engine.poll(app.no, {
        announcement,
        app: { id: app.id, queueNo: app.queueNo },
        max,
        waitMs: waitSeconds * 1000,
        gone: () => call.gone,
      });
      call.undelivered(() =>
        engine.executions.end(
          protocolVersion,
          tasks.map(({ token }) => ({ token, answer: { status: "suspended", again: true } })),
        ),
      );
      return { protocol: protocolVersion, tasks };
    },
  };
}
