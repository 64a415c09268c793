// A schedule that feeds a workflow: each night a message comes to a queue, and a subscription starts a run for it. One message is one
// run, however often it is delivered. Run this file once to set it up:
//   npx tsx examples/workflows/nightly.ts jobs
// The run's input is the message.
import { pathToFileURL } from "node:url";
import { queue } from "@millrace/sdk";
import { type WorkflowMessage, workflow } from "@millrace/sdk/workflows";

export const nightly = workflow<WorkflowMessage, { day: string; lines: number }>("nightly", async ({ input, step }) => {
  const { kind } = JSON.parse(input.body) as { kind: string };
  const day = await step.run("day", () => input.sentAt.slice(0, 10));
  const lines = await step.run("collect", () => kind.length);
  await step.run("publish", () => console.log(`report of ${day}: ${lines} lines`));
  return { day, lines };
});

/** Makes the schedule and the subscription; run again, it changes nothing. */
async function setUp(app: string): Promise<void> {
  const { MILLRACE_URL, MILLRACE_API_KEY, MILLRACE_ORGANIZATION, MILLRACE_PROJECT } = process.env;
  const reports = queue<{ kind: string }>("nightly-reports");
  const { id: queueId } = await reports.ensure({ maxAttempts: 10 });
  await reports.schedule("nightly", { cron: "0 3 * * *", timezone: "Europe/Berlin", payload: { kind: "daily" } });
  const answer = await fetch(`${MILLRACE_URL}/v1/organizations/${MILLRACE_ORGANIZATION}/projects/${MILLRACE_PROJECT}/subscriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${MILLRACE_API_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ queueId, target: { kind: "workflow", mode: "start", appId: app, workflow: nightly.name } }),
  });
  if (!answer.ok && answer.status !== 409) throw new Error(await answer.text());
  console.log(`runs of ${nightly.name} start at 3 each night`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await setUp(process.argv[2] ?? "jobs");
