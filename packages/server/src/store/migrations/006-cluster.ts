/**
 * Several nodes on one database: who is alive, and which of the 256 slots of work each node owns. A slot's `token` grows at every
 * change of its owner. `lane_change` says which queues' lanes changed when, for the nodes that did not change them themselves.
 */
export const cluster = {
  version: 6,
  name: "cluster",
  sql: `
CREATE TABLE node (id text PRIMARY KEY, name text NOT NULL, version text NOT NULL, skew_ms {bigint} NOT NULL, started_at {bigint} NOT NULL,
  seen_at {bigint} NOT NULL);
CREATE TABLE slot (no integer PRIMARY KEY, node_id text, token {bigint} NOT NULL) {small};
INSERT INTO slot (no, token) WITH RECURSIVE n (no) AS (SELECT 0 UNION ALL SELECT no + 1 FROM n WHERE no < 255) SELECT no, 0 FROM n;
CREATE TABLE lane_change (queue_no integer PRIMARY KEY, changed_at {bigint} NOT NULL);
CREATE INDEX lane_change_at ON lane_change (changed_at);
`,
} as const;
