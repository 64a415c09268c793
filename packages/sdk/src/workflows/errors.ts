/**
 * What steps fail with. A step's error is told from its record alone, live as on replay, so that code which looks at it decides the same
 * every time: the class and any further members of what was thrown are gone, name and message remain.
 */
import type { RunError } from "@millrace/contract/wire";
import { messageOf, oneLine } from "../text.ts";

/** A step that failed for good. `name` and `message` are those of what its function threw last. */
export class StepError extends Error {
  /** The step's id: its name, with `#n` for repeats. */
  readonly stepId: string;
  /** `user` for what a function threw, else the server's code, such as `queue_not_found` or `limit_exceeded`. */
  readonly code: string;

  constructor(stepId: string, error: RunError) {
    super(error.message);
    this.name = error.name;
    this.stepId = stepId;
    this.code = error.code ?? "user";
  }
}

/** The run was cancelled: what it waited for is over. Clean up, then throw it on. */
export class CancelledError extends Error {
  constructor(message = "the run was cancelled") {
    super(message);
    this.name = "CancelledError";
  }
}

/** The code under which a cancelled step of its own function is recorded. */
export const cancelledCode = "cancelled";

/** The error under which it is recorded. */
export const cancelledRecord: RunError = { code: cancelledCode, name: "CancelledError", message: "the run was cancelled" };

/** A value that the journal cannot hold; `code` goes into the step's record. */
export class ValueError extends Error {
  readonly code: "invalid_value" | "limit_exceeded";
  constructor(code: "invalid_value" | "limit_exceeded", message: string) {
    super(message);
    this.name = "ValueError";
    this.code = code;
  }
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** An error's record, from anything that was thrown. Never throws. */
export function recordOf(thrown: unknown): RunError {
  let name = "Error";
  let code = "user";
  let stack: string | undefined;
  try {
    if (typeof thrown === "object" && thrown !== null) {
      const given = thrown as { name?: unknown; stack?: unknown };
      name = oneLine(text(given.name) ?? "Error", 200);
      stack = text(given.stack)
        ?.slice(0, 8000)
        .replace(/\p{Cs}/gu, "\ufffd");
      if (thrown instanceof StepError || thrown instanceof ValueError) code = thrown.code;
    }
  } catch {
    // whatever cannot even be looked at is an error like any other
  }
  return { code, name, message: messageOf(thrown, 2000), ...(stack === undefined ? {} : { stack }) };
}
