/**
 * Room on the pages of runs: a run's row changes with every batch of its steps, in columns that no index holds, and a new version that finds
 * room beside the old one costs PostgreSQL no index entries.
 */
export const roomyRuns = {
  version: 11,
  name: "roomy runs",
  sql: `
{roomy_runs}
`,
} as const;
