/**
 * Quotas of projects (W16): a row for each project that has one. `sent` are the messages that its clients sent on `day`, counted in days
 * since 1970 (UTC); of an earlier day it says nothing about today.
 */
export const quotas = {
  version: 8,
  name: "quotas",
  sql: `
CREATE TABLE quota (project_no integer PRIMARY KEY REFERENCES project (no), max_per_day {bigint} NOT NULL, day integer NOT NULL,
  sent {bigint} NOT NULL);
`,
} as const;
