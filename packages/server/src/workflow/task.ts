/** Runs and their journals in the words of the protocol: pure. */
import { type JournalStep, protocolVersion, type Task } from "@millrace/contract/wire";
import type { Begun } from "../store/execution.ts";
import type { JournalRows } from "../store/journal.ts";
import type { StepRow } from "../store/run-rows.ts";

const decoder = new TextDecoder();
const textOf = (bytes: Uint8Array | null): string | null => (bytes === null ? null : decoder.decode(bytes));

/** A step as executors are told of it. */
export function journalStep(step: StepRow): JournalStep {
  const { id, type, status, attempt, dueAt, childId, endedOrder, error, result } = step;
  const shown: JournalStep = { id, type, status };
  if (type === "run" || type === "send") shown.attempt = attempt;
  if (endedOrder !== null) shown.order = endedOrder;
  if (dueAt !== null && status === "retrying") shown.retryAt = dueAt;
  if (dueAt !== null && status === "pending") shown.until = dueAt;
  if (childId !== null) shown.runId = childId;
  if (result !== null) shown.result = textOf(result);
  if (error !== null) shown.error = error;
  return shown;
}

/** A page of a journal; the cursor is the position of its last step. */
export function journalPage({ steps, next }: JournalRows): { steps: JournalStep[]; next: string | null } {
  return { steps: steps.map(journalStep), next: next === null ? null : String(next) };
}

/** An execution as its executor is given it. */
export function taskOf(
  { run, input, journal, now }: Begun,
  given: { executionId: string; token: string; callbackUrl: string; leaseMs: number; appId: string },
): Task {
  const { executionId, token, callbackUrl, leaseMs, appId } = given;
  return {
    type: "execute",
    protocol: protocolVersion,
    executionId,
    token,
    callbackUrl,
    now,
    leaseMs,
    run: { id: run.id, appId, workflow: run.workflow, attempt: run.attempt, createdAt: run.createdAt },
    input: textOf(input),
    cancelled: run.cancelAt !== null,
    journal: journalPage(journal),
  };
}
