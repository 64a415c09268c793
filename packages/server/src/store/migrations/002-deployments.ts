/**
 * Push consumers and deployments: what a queue's consumer is called at, which deployment of an environment is called, the secret
 * that signs, and the environment that a key means. `serving_version` rises with every change that another node's lanes must hear of.
 */
export const deployments = {
  version: 2,
  name: "deployments",
  sql: `
ALTER TABLE queue ADD COLUMN consumer_path text;
ALTER TABLE queue ADD COLUMN consumer_failing integer NOT NULL DEFAULT 0;
CREATE INDEX queue_consumer ON queue (no) WHERE consumer_path IS NOT NULL;
ALTER TABLE api_key ADD COLUMN environment text;
ALTER TABLE environment ADD COLUMN secret text;
ALTER TABLE environment ADD COLUMN next_secret text;
ALTER TABLE environment ADD COLUMN next_at {bigint};
ALTER TABLE environment ADD COLUMN current_no integer;
CREATE TABLE deployment (no integer PRIMARY KEY, project_no integer NOT NULL REFERENCES project (no),
  environment_no integer NOT NULL REFERENCES environment (no), id text NOT NULL, url text NOT NULL, retired_at {bigint},
  promoted_at {bigint}, created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL, UNIQUE (project_no, id));
CREATE INDEX deployment_environment ON deployment (environment_no, no);
CREATE TABLE serving_version (n {bigint} NOT NULL);
INSERT INTO serving_version (n) VALUES (0);
`,
} as const;
