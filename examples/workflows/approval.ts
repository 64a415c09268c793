// A human decides: the run waits for a message that says yes or no. With a lookback, a decision that comes before the run waits for it
// is not lost, as long as the resume subscription keeps messages (keepUnmatchedSeconds).
import { workflow } from "@millrace/sdk/workflows";

const decisionsQueueId = process.env.DECISIONS_QUEUE_ID ?? "";

export interface Expense {
  id: string;
  cents: number;
  by: string;
}

export const expense = workflow<Expense, "paid" | "refused" | "expired">("expense", async ({ input, step }) => {
  if (input.cents <= 5_000) return step.run("pay", () => "paid" as const);

  await step.run("ask", () => console.log(`please decide on expense ${input.id} of ${input.by}`));
  const decision = await step.waitForMessage("decision", {
    queueId: decisionsQueueId,
    key: `expense:${input.id}`,
    timeoutSeconds: 14 * 86_400,
    lookback: "1h",
  });
  if (decision === null) return "expired";
  const { approved } = JSON.parse(decision.body) as { approved: boolean };
  return approved ? step.run("pay", () => "paid" as const) : "refused";
});
