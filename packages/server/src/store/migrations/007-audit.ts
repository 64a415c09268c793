/** The audit log (A7): one row per management call, under the organization it was about; `project` is the name that one had. */
export const audit = {
  version: 7,
  name: "audit",
  sql: `
CREATE TABLE audit (no {bigint} PRIMARY KEY, organization_no integer NOT NULL, project text, at {bigint} NOT NULL, key_id text NOT NULL,
  key_name text NOT NULL, operation text NOT NULL, path text NOT NULL, address text NOT NULL, status integer NOT NULL, code text,
  request_id text NOT NULL);
CREATE INDEX audit_organization ON audit (organization_no, no);
CREATE INDEX audit_at ON audit (at);
`,
} as const;
