/**
 * Schedules (C9). `next_at` is the occurrence that is to be sent next, `null` while the schedule is off; `due_at` is when to look at it:
 * the same instant, or later after a send that was refused.
 */
export const schedules = {
  version: 3,
  name: "schedules",
  sql: `
CREATE TABLE schedule (no integer PRIMARY KEY, id text NOT NULL UNIQUE, queue_no integer NOT NULL, name text NOT NULL, cron text NOT NULL,
  timezone text NOT NULL, body text NOT NULL, content_type text NOT NULL, headers text NOT NULL, enabled integer NOT NULL,
  source text NOT NULL, next_at {bigint}, due_at {bigint}, last_at {bigint}, last_message_id text, last_error text,
  created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL, UNIQUE (queue_no, name));
CREATE INDEX schedule_due ON schedule (due_at) WHERE due_at IS NOT NULL;
`,
} as const;
