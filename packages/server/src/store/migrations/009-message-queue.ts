/** The order of a queue's numbers, for those that ask for it alone (see `by-queue.ts`). */
export const messageQueue = {
  version: 9,
  name: "message queue",
  sql: `
DROP INDEX message_queue;
CREATE INDEX message_queue ON message (queue_no, seq) WHERE queue_no > 0;
`,
} as const;
