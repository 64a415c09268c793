/** Results that wait are looked up by their group: whether an earlier one is there decides whether one is sent, and whether it is tried. */
export const resultGroups = {
  version: 12,
  name: "result groups",
  sql: `
CREATE INDEX run_result_group ON run_result (queue_no, group_key, no);
`,
} as const;
