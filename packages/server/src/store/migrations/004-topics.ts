/**
 * Topics. What the tables promise, and who may count on it:
 * - `topic.no` and `topic_subscription.no` come from the counter that numbers queues, so a topic's number may stand as `queue_no` in
 *   `dedup` (repeated publications) without ever meeting a queue's.
 * - `topic.version` rises, under the topic's row lock, with every change of who receives or of what they filter. `membership` says who
 *   did at a version: `since <= version AND (until IS NULL OR until > version)`; `members` is how many that are now. A publication
 *   stores the version it was accepted at (read with FOR SHARE on PostgreSQL) and reaches exactly the members of that version. A
 *   closed row goes once no open notification can need it: who keeps members in memory compares their number with `members`.
 * - `notification.no` and `delivery.no` are drawn with `Tx.sequence`; their ids are `messageId(accepted_at | created_at, no)`, which
 *   leads back to the number: no id is stored. `walked` is the last `subscription_no` that the fan-out has decided on: deliveries and
 *   `walked` move in one transaction. `state` is `accepted`, `fanning_out` or `complete`. Counts of deliveries are counted, not kept.
 * - `topic_subscription.queue_no` is its internal queue, where every delivery waits as the message `message_no`. Its body is, in decimal
 *   with spaces between, the numbers of delivery and notification and the delivery's `created_at`; or `confirmation` for the handshake.
 *   The queue is made and ended with the subscription, is in no environment that a name can mean, and is FIFO where the topic is.
 * - Ended topics and subscriptions stay with `ended_at` until their delivery records are gone, for the records name them. A delivery
 *   that is open (`ended_at IS NULL`) under an ended subscription is cancelled, whether or not the chore has written that down yet.
 */
export const topics = {
  version: 4,
  name: "topics",
  sql: `
CREATE TABLE topic (no integer PRIMARY KEY, id text NOT NULL UNIQUE, project_no integer NOT NULL, name text NOT NULL, fifo integer NOT NULL,
  settings text NOT NULL, version {bigint} NOT NULL, members integer NOT NULL, subscriptions integer NOT NULL, ended_at {bigint},
  created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL);
CREATE UNIQUE INDEX topic_name ON topic (project_no, name) WHERE ended_at IS NULL;
CREATE INDEX topic_ended ON topic (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE topic_subscription (no integer PRIMARY KEY, id text NOT NULL UNIQUE, topic_no integer NOT NULL, project_no integer NOT NULL,
  protocol text NOT NULL, endpoint text NOT NULL, endpoint_hash text NOT NULL, target_no integer, queue_no integer NOT NULL UNIQUE,
  state text NOT NULL, settings text NOT NULL, secret text, confirmable_until {bigint}, confirmed_at {bigint}, failing integer NOT NULL,
  last_error text, last_success_at {bigint}, ended_at {bigint}, created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL);
CREATE UNIQUE INDEX topic_subscription_endpoint ON topic_subscription (topic_no, protocol, endpoint_hash) WHERE ended_at IS NULL;
CREATE INDEX topic_subscription_topic ON topic_subscription (topic_no, no) WHERE ended_at IS NULL;
CREATE INDEX topic_subscription_ended ON topic_subscription (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE membership (topic_no integer NOT NULL, subscription_no integer NOT NULL, since {bigint} NOT NULL, until {bigint}, filter text,
  scope text NOT NULL, PRIMARY KEY (topic_no, subscription_no, since));
CREATE INDEX membership_since ON membership (topic_no, since);
CREATE INDEX membership_until ON membership (topic_no, until) WHERE until IS NOT NULL;

CREATE TABLE notification (no {bigint} PRIMARY KEY, topic_no integer NOT NULL, version {bigint} NOT NULL, members integer NOT NULL,
  state text NOT NULL, walked integer NOT NULL, matched integer NOT NULL, accepted_at {bigint} NOT NULL, completed_at {bigint},
  message_group {text}, dedup_id text, subject text, attributes text, structure text, traceparent text, message {bytes} NOT NULL);
CREATE INDEX notification_open ON notification (no) WHERE state <> 'complete';
CREATE INDEX notification_front ON notification (topic_no, no) WHERE state <> 'complete' AND message_group IS NOT NULL;
CREATE INDEX notification_topic ON notification (topic_no, no);
CREATE INDEX notification_accepted ON notification (accepted_at);
CREATE TABLE delivery (no {bigint} PRIMARY KEY, notification_no {bigint} NOT NULL, subscription_no integer NOT NULL, state text NOT NULL,
  attempts integer NOT NULL, message_no {bigint}, created_at {bigint} NOT NULL, next_attempt_at {bigint}, delivered_at {bigint}, ended_at {bigint},
  last_status integer, last_error text, dead_letter text);
CREATE UNIQUE INDEX delivery_once ON delivery (notification_no, subscription_no);
CREATE INDEX delivery_subscription ON delivery (subscription_no, no);
CREATE INDEX delivery_open ON delivery (subscription_no, no) WHERE ended_at IS NULL;
CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL;
`,
} as const;
