/**
 * The first schema. `{bigint}`, `{bytes}`, `{text}`, `{hot}`, `{small}` and `{sequence}` are rendered by engine. The message table is the
 * line of `docs/storage.md`: a row with `line_at` stands in line from that time; lease, retry and delay only move it.
 */
export const foundation = {
  version: 1,
  name: "foundation",
  sql: `
CREATE TABLE organization (no integer PRIMARY KEY, id text NOT NULL UNIQUE, name text NOT NULL UNIQUE, created_at {bigint} NOT NULL);
CREATE TABLE project (no integer PRIMARY KEY, id text NOT NULL UNIQUE, organization_no integer NOT NULL REFERENCES organization (no),
  name text NOT NULL, created_at {bigint} NOT NULL, UNIQUE (organization_no, name));
CREATE TABLE environment (no integer PRIMARY KEY, id text NOT NULL UNIQUE, project_no integer NOT NULL REFERENCES project (no),
  slug text NOT NULL, created_at {bigint} NOT NULL, UNIQUE (project_no, slug));
CREATE TABLE api_key (no integer PRIMARY KEY, id text NOT NULL UNIQUE, project_no integer REFERENCES project (no), name text NOT NULL,
  hash text NOT NULL UNIQUE, statements text NOT NULL, expires_at {bigint}, last_used_at {bigint}, created_at {bigint} NOT NULL);
CREATE TABLE idempotency (scope text NOT NULL, key text NOT NULL, hash text NOT NULL, status integer, answer text, until {bigint} NOT NULL,
  PRIMARY KEY (scope, key));
CREATE INDEX idempotency_until ON idempotency (until);

CREATE TABLE queue (no integer PRIMARY KEY, id text NOT NULL UNIQUE, resource_name text NOT NULL UNIQUE,
  project_no integer NOT NULL REFERENCES project (no), environment text NOT NULL, name text NOT NULL, type text NOT NULL,
  settings text NOT NULL, dead_letter_no integer, source text NOT NULL, created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL,
  UNIQUE (project_no, environment, name));
CREATE TABLE queue_counter (last integer NOT NULL);
INSERT INTO queue_counter (last) VALUES (0);
CREATE TABLE queue_removal (queue_no integer PRIMARY KEY, removed_at {bigint} NOT NULL);
CREATE INDEX queue_dead_letter ON queue (dead_letter_no) WHERE dead_letter_no IS NOT NULL;

CREATE TABLE message (
  seq {bigint} PRIMARY KEY, queue_no integer NOT NULL, origin {bigint} NOT NULL,
  line_at {bigint}, later_at {bigint}, due_at {bigint} NOT NULL, sent_at {bigint} NOT NULL, expires_at {bigint} NOT NULL,
  final_at {bigint}, dead_at {bigint}, delivered_at {bigint}, receipt {bigint},
  receives integer NOT NULL, attempts integer NOT NULL, source_no integer,
  group_key {text}, held_key {text}, attributes text, meta text, last_error text, body {bytes} NOT NULL) {hot};
CREATE INDEX message_queue ON message (queue_no, seq);
CREATE INDEX message_line ON message (queue_no, line_at, seq) WHERE line_at IS NOT NULL;
CREATE INDEX message_group ON message (queue_no, group_key, seq) WHERE group_key IS NOT NULL AND dead_at IS NULL AND later_at IS NULL;
CREATE INDEX message_later ON message (queue_no, later_at) WHERE later_at IS NOT NULL;
CREATE INDEX message_held ON message (queue_no, held_key) WHERE held_key IS NOT NULL;
CREATE INDEX message_final ON message (final_at) WHERE final_at IS NOT NULL;
CREATE INDEX message_dead ON message (queue_no, dead_at, seq) WHERE dead_at IS NOT NULL;
CREATE INDEX message_expiry ON message (expires_at);
CREATE INDEX message_origin ON message (origin) WHERE origin <> seq;
CREATE TABLE dedup (queue_no integer NOT NULL, key {text} NOT NULL, seq {bigint} NOT NULL, sent_at {bigint} NOT NULL,
  deliver_at {bigint} NOT NULL, until {bigint} NOT NULL, PRIMARY KEY (queue_no, key));
CREATE INDEX dedup_until ON dedup (until);
CREATE TABLE tally (queue_no integer NOT NULL, slot integer NOT NULL, live {bigint} NOT NULL, dead {bigint} NOT NULL, bytes {bigint} NOT NULL,
  sent {bigint} NOT NULL, acked {bigint} NOT NULL, failed {bigint} NOT NULL, buried {bigint} NOT NULL, expired {bigint} NOT NULL,
  PRIMARY KEY (queue_no, slot)) {small};
{sequence}
CREATE TABLE memory_version (n {bigint} NOT NULL);
INSERT INTO memory_version (n) VALUES (0);
CREATE TABLE redrive (no integer PRIMARY KEY, id text NOT NULL UNIQUE, queue_no integer NOT NULL, state text NOT NULL, upto_seq {bigint} NOT NULL,
  picked text, rate_per_second integer, selected integer NOT NULL, moved integer NOT NULL, failed integer NOT NULL, last_error text,
  created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL);

CREATE TABLE subscription (no integer PRIMARY KEY, id text NOT NULL UNIQUE, resource_name text NOT NULL UNIQUE, queue_no integer NOT NULL UNIQUE,
  project_no integer NOT NULL REFERENCES project (no), target text NOT NULL, batch_size integer NOT NULL, max_concurrency integer NOT NULL,
  state text NOT NULL, record_attempts integer NOT NULL, secret text NOT NULL, previous_secret text, previous_until {bigint},
  failing integer NOT NULL, last_error text, last_success_at {bigint}, created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL);
CREATE INDEX subscription_project ON subscription (project_no, no);
CREATE TABLE attempt (no {bigint} PRIMARY KEY, subscription_no integer NOT NULL, at {bigint} NOT NULL, outcome text NOT NULL, record text NOT NULL);
CREATE INDEX attempt_subscription ON attempt (subscription_no, no);
CREATE INDEX attempt_at ON attempt (at);
`,
} as const;
