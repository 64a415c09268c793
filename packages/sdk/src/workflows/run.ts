/** A workflow's function on one journal: what both transports and the test harness have in common. */
import type { ExecutionAnswer } from "@millrace/contract/wire";
import { InvalidPayloadError } from "../outcome.ts";
import { check } from "../payload.ts";
import type { Runtime } from "../runtime.ts";
import type { Bench } from "./attempt.ts";
import { CancelledError } from "./errors.ts";
import { execute } from "./execution.ts";
import type { Host, Opening } from "./host.ts";
import { createFan, type Fan } from "./signals.ts";
import { createStep, type StepTools } from "./step.ts";
import { decodeValue } from "./value.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** The run to be moved on. */
export interface RunToExecute extends Opening {
  runId: string;
  /** JSON text. */
  input: string | null | undefined;
}

/** The world of one execution. */
export interface Surroundings {
  host: Host;
  runtime: Pick<Runtime, "wait" | "random" | "uuid">;
  send?: StepTools["send"];
}

/** The signals of an execution's tries. */
function triesOn({ signal, cancelling }: Host): Fan {
  const tries = createFan(signal);
  const cancel = (): void => tries.abort(new CancelledError());
  if (cancelling?.aborted) cancel();
  else cancelling?.addEventListener("abort", cancel, { once: true });
  return tries;
}

/** Executes a run until it ends or can't go on. `undefined`: there is nothing to answer. Never rejects. */
export function runWorkflow(workflow: AnyWorkflow, run: RunToExecute, around: Surroundings): Promise<ExecutionAnswer | undefined> {
  const { host, runtime, send } = around;
  let tries: Fan | undefined;
  const bench: Bench = {
    runtime,
    tries() {
      tries ??= triesOn(host);
      return tries;
    },
    cancelled: () => host.cancelling?.aborted === true,
    now: host.now,
  };
  const { runId, attempt, cancelled } = run;

  return execute(
    run,
    async (reach) => {
      let input = decodeValue(run.input);
      if (workflow.input !== undefined) {
        try {
          input = await check(workflow.input, input);
        } catch (error) {
          throw new InvalidPayloadError("the input is not valid", error);
        }
      }
      const step = createStep({ reach, bench, runId, retry: workflow.retry, random: runtime.random, uuid: runtime.uuid, send });
      return workflow.run({ input, step, run: { id: runId, workflow: workflow.name, attempt }, cancelled });
    },
    host,
  );
}
