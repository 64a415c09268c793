/** The hot statements of workflows. See `Statement` in `db/db.ts`. Results and outputs are bytes, and none where `known` is 0. */
import type { Statement } from "../db/db.ts";
import { RUN, STEP } from "./run-rows.ts";

/** Advisory locks of one class, by ascending numbers. */
const advisory = (lockClass: number): Statement => ({
  kind: "text",
  params: { no: "int" },
  text: `SELECT pg_advisory_xact_lock(${lockClass}, t.no) FROM (SELECT r.no FROM {rows} ORDER BY r.no) AS t`,
});

/** The statements by name. */
export const workflowStatements = {
  "lock.appPlaces": advisory(7_407),
  "lock.waits": advisory(7_406),
  "lock.results": advisory(7_404),
  "lock.families": {
    kind: "text",
    params: { no: "bigint" },
    text: `SELECT r.no FROM run AS r WHERE r.no = ANY(ARRAY(SELECT unnest($1::bigint[]) UNION
      SELECT c.parent_no FROM run AS c WHERE c.no = ANY($1::bigint[]) AND c.parent_no IS NOT NULL)) ORDER BY r.no FOR NO KEY UPDATE`,
  },
  "lock.workflows": {
    kind: "text",
    params: { app: "int", name: "text" },
    text: `SELECT w.name FROM workflow AS w JOIN {rows} ON w.app_no = r."app" AND w.name = r."name" ORDER BY w.app_no, w.name
      FOR NO KEY UPDATE OF w`,
  },
  "run.number": { kind: "select", params: { id: "text" }, select: "SELECT run.no FROM run WHERE run.id = :id" },
  "run.hold": {
    kind: "select",
    params: { no: "bigint" },
    select: `SELECT ${RUN}, execution_seq, execution_receipt, ended_steps, (SELECT a.project_no FROM app AS a WHERE a.no = run.app_no) AS project_no
      FROM run WHERE run.no = :no {lock}`,
  },
  "run.input": { kind: "select", params: { no: "bigint" }, select: "SELECT run.no, run.input FROM run WHERE run.no = :no" },
  "run.insert": {
    kind: "insert",
    params: {
      no: "bigint",
      id: "text",
      app: "int",
      workflow: "text",
      source: "text",
      parent: "bigint",
      step: "text",
      timeout: "bigint",
      until: "bigint",
      known: "int",
      input: "bytea",
    },
    into: `run (no, id, app_no, workflow, status, attempt, executions, steps, journal_bytes, source, parent_no, parent_step, timeout_ms,
      timeout_at, created_at, input)`,
    values: `:no, :id, :app, :workflow, 'queued', 1, 0, 0, 0, :source, :parent, :step, :timeout, :until, $now,
      CASE WHEN :known = 1 THEN :input END`,
    conflict: "ON CONFLICT (id) DO NOTHING",
    answer: { no: "no" },
  },
  "run.begun": {
    kind: "write",
    table: "run",
    params: { no: "bigint", seq: "bigint", receipt: "bigint" },
    head: `UPDATE run SET status = 'running', started_at = coalesce(started_at, $now), executions = executions + 1, execution_seq = :seq,
      execution_receipt = :receipt, parked = 0, reason = NULL`,
    where: "run.no = :no",
  },
  "run.recorded": {
    kind: "write",
    table: "run",
    params: { no: "bigint", added: "int", ended: "int", bytes: "bigint" },
    head: "UPDATE run SET steps = steps + :added, ended_steps = :ended, journal_bytes = journal_bytes + :bytes",
    where: "run.no = :no",
  },
  "run.record": {
    kind: "write",
    table: "run",
    params: { no: "bigint", seq: "bigint", receipt: "bigint", added: "int", bytes: "bigint", mostSteps: "int", mostBytes: "bigint" },
    head: "UPDATE run SET steps = steps + :added, ended_steps = ended_steps + :added, journal_bytes = journal_bytes + :bytes",
    where: `run.no = :no AND run.execution_seq = :seq AND run.execution_receipt = :receipt AND run.ended_at IS NULL AND run.cancel_at IS NULL
      AND run.attempt = 1 AND run.steps + :added <= :mostSteps AND run.journal_bytes + :bytes <= :mostBytes`,
    returning: "run.no AS no, run.steps - :added AS steps, run.ended_steps - :added AS ended",
    after: true,
  },
  "run.wait": {
    kind: "write",
    table: "run",
    params: { no: "bigint", reason: "text" },
    head: "UPDATE run SET status = 'waiting', reason = :reason, execution_seq = NULL, execution_receipt = NULL",
    where: "run.no = :no",
  },
  "run.end": {
    kind: "write",
    table: "run",
    params: { no: "bigint", to: "text", error: "text", known: "int", output: "bytea" },
    head: `UPDATE run SET status = :to, reason = NULL, error = :error, output = CASE WHEN :known = 1 THEN :output END, ended_at = $now,
      execution_seq = NULL, execution_receipt = NULL, parked = 0`,
    where: "run.no = :no",
  },
  "run.complete": {
    kind: "write",
    table: "run",
    params: { no: "bigint", seq: "bigint", receipt: "bigint", known: "int", output: "bytea" },
    head: `UPDATE run SET status = 'completed', reason = NULL, error = NULL, output = CASE WHEN :known = 1 THEN :output END, ended_at = $now,
      execution_seq = NULL, execution_receipt = NULL, parked = 0`,
    where: `run.no = :no AND run.execution_seq = :seq AND run.execution_receipt = :receipt AND run.ended_at IS NULL AND run.cancel_at IS NULL
      AND run.attempt = 1 AND run.steps = run.ended_steps AND run.parent_no IS NULL
      AND NOT EXISTS (SELECT 1 FROM app AS a WHERE a.no = run.app_no AND a.notifications IS NOT NULL)`,
    returning: "run.no AS no, run.app_no AS app_no, run.workflow AS workflow",
  },
  "wake.others": {
    kind: "select",
    params: { q: "int", g: "text", seq: "bigint" },
    select: `SELECT m.seq, m.group_key FROM message AS m WHERE m.queue_no = :q AND m.group_key = :g AND m.dead_at IS NULL
      AND m.later_at IS NULL AND m.seq <> :seq`,
  },
  "message.held": {
    kind: "select",
    params: { seq: "bigint" },
    select: `SELECT m.seq, m.queue_no, m.receipt FROM message AS m WHERE m.seq = :seq AND m.receipt IS NOT NULL AND m.due_at > $now`,
  },
  "step.due": {
    kind: "select",
    params: { run: "bigint" },
    select: `SELECT ${STEP} FROM step WHERE step.run_no = :run AND status IN ('pending', 'retrying') AND due_at <= $now
      AND (status = 'pending' OR timer_seq IS NOT NULL)`,
  },
  "step.find": {
    kind: "select",
    params: { run: "bigint", id: "text" },
    select: `SELECT ${STEP} FROM step WHERE step.run_no = :run AND step.id = :id`,
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
