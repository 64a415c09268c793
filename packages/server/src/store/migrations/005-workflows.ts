/**
 * Workflows (W). A run's wake-ups are messages of its app's own FIFO queue (`app.queue_no`), grouped by the run's id; what a wake-up
 * finds to do lies here. A `step` that is `pending` waits for its `due_at`, for a message (a `wait` row) or for a child run; whoever
 * ends the waiting changes the step from `pending` and sends the wake-up in one transaction, so that exactly one does.
 * `ended_order` numbers a run's finished steps as the code learned of them (protocol: `order`), drawn from `run.ended_steps`: when an
 * executor records one, and for steps that others ended when an execution is first shown them (until then it is null).
 */
export const workflows = {
  version: 5,
  name: "workflows",
  sql: `
CREATE TABLE app (no integer PRIMARY KEY, id text NOT NULL UNIQUE, resource_name text NOT NULL UNIQUE,
  project_no integer NOT NULL REFERENCES project (no), name text NOT NULL, mode text NOT NULL, url text, queue_no integer NOT NULL UNIQUE,
  max_concurrency integer NOT NULL, state text NOT NULL, secret text, previous_secret text, previous_until {bigint},
  notifications text, protocol text, build_id text, synced_at {bigint}, sync_error text, failing integer NOT NULL DEFAULT 0,
  last_error text, last_success_at {bigint}, unclaimed {bigint} NOT NULL DEFAULT 0, unnotified {bigint} NOT NULL DEFAULT 0,
  created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL, UNIQUE (project_no, name));
CREATE TABLE app_counter (last integer NOT NULL);
INSERT INTO app_counter (last) VALUES (0);
CREATE TABLE app_removal (app_no integer PRIMARY KEY, removed_at {bigint} NOT NULL);
CREATE TABLE workflow (app_no integer NOT NULL, name {text} NOT NULL, settings text NOT NULL, announced_at {bigint} NOT NULL,
  PRIMARY KEY (app_no, name));

CREATE TABLE run (no {bigint} PRIMARY KEY, id text NOT NULL UNIQUE, app_no integer NOT NULL, workflow {text} NOT NULL, status text NOT NULL,
  reason text, attempt integer NOT NULL, executions integer NOT NULL, steps integer NOT NULL, ended_steps integer NOT NULL DEFAULT 0,
  journal_bytes {bigint} NOT NULL,
  source text NOT NULL, parent_no {bigint}, parent_step text, cancel_at {bigint}, execution_seq {bigint},
  execution_receipt {bigint}, parked integer NOT NULL DEFAULT 0, timeout_ms {bigint} NOT NULL, timeout_at {bigint} NOT NULL,
  created_at {bigint} NOT NULL, started_at {bigint}, ended_at {bigint}, error text, input {bytes}, output {bytes});
CREATE INDEX run_app ON run (app_no, no);
CREATE INDEX run_open ON run (app_no, status, no) WHERE status <> 'completed';
CREATE INDEX run_reason ON run (app_no, no) WHERE reason IS NOT NULL;
CREATE INDEX run_parked ON run (app_no, workflow, no) WHERE parked = 1;
CREATE INDEX run_timeout ON run (timeout_at) WHERE ended_at IS NULL;
CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE step (run_no {bigint} NOT NULL, id {text} NOT NULL, position integer NOT NULL, type text NOT NULL, status text NOT NULL,
  attempt integer NOT NULL, due_at {bigint}, timer_seq {bigint}, child_id text, started_at {bigint} NOT NULL, ended_at {bigint},
  ended_order integer, error text, result {bytes}, PRIMARY KEY (run_no, id));
CREATE TABLE wait (no {bigint} PRIMARY KEY, app_no integer NOT NULL, queue_no integer NOT NULL, key {text} NOT NULL,
  run_no {bigint} NOT NULL, step_id {text} NOT NULL, created_at {bigint} NOT NULL);
CREATE INDEX wait_key ON wait (app_no, queue_no, key, no);
CREATE INDEX wait_run ON wait (run_no);
CREATE TABLE resuming (app_no integer NOT NULL, queue_no integer NOT NULL, seq {bigint} NOT NULL, upto_no {bigint} NOT NULL,
  until {bigint} NOT NULL, PRIMARY KEY (app_no, queue_no, seq));
CREATE TABLE kept_message (no {bigint} PRIMARY KEY, app_no integer NOT NULL, queue_no integer NOT NULL, key {text} NOT NULL,
  kept_at {bigint} NOT NULL, until {bigint} NOT NULL, message {bytes} NOT NULL);
CREATE INDEX kept_message_key ON kept_message (app_no, queue_no, key, no);
CREATE INDEX kept_message_until ON kept_message (until);
CREATE TABLE run_result (no {bigint} PRIMARY KEY, app_no integer NOT NULL, run_id text NOT NULL, queue_no integer NOT NULL,
  group_key text, dedup_id text NOT NULL, tries integer NOT NULL, next_at {bigint} NOT NULL, until {bigint} NOT NULL, body {bytes} NOT NULL);
CREATE INDEX run_result_next ON run_result (next_at);
`,
} as const;
