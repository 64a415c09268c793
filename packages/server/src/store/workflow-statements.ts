/** The hot statements of workflows. See `Statement` in `db/db.ts`. A result is bytes, and none where `known` is 0. */
import type { Statement } from "../db/db.ts";

/** The statements by name. */
export const workflowStatements = {
  "lock.runs": {
    kind: "text",
    params: { no: "bigint" },
    text: "SELECT r.no FROM run AS r WHERE r.no = ANY($1::bigint[]) ORDER BY r.no FOR NO KEY UPDATE",
  },
  "step.insert": {
    kind: "insert",
    params: {
      run: "bigint",
      id: "text",
      position: "int",
      type: "text",
      status: "text",
      attempt: "int",
      due: "bigint",
      child: "text",
      started: "bigint",
      finished: "int",
      place: "int",
      error: "text",
      known: "int",
      result: "bytea",
    },
    into: `step (run_no, id, position, type, status, attempt, due_at, child_id, started_at, ended_at, ended_order, error, result)`,
    values: `:run, :id, :position, :type, :status, :attempt, :due, :child, :started, CASE WHEN :finished = 1 THEN $now END, :place, :error,
      CASE WHEN :known = 1 THEN :result END`,
  },
} as const satisfies Readonly<Record<string, Statement>>;
