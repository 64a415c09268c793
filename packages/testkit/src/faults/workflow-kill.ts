/**
 * One fault loop from queue to queue: order messages start runs, payments resume them, results go to a queue, and the server is killed at
 * random instants. Afterwards every order has one run, one payment and one result, whatever was under way.
 */
import { api } from "./api.ts";
import { chance, seed } from "./chance.ts";
import type { MillraceProcess } from "./millrace-process.ts";
import { startWorker } from "./workflow-worker.ts";

/** What was found after the loop. */
export interface WorkflowsKilled {
  violations: string[];
  orders: number;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends one message to a queue until it is answered, as the same send each time. */
async function sendOnce(server: { url: string; apiKey: string }, queue: string, key: string, message: object): Promise<void> {
  for (;;) {
    try {
      const answer = await fetch(`${server.url}/v1/organizations/default/projects/default/queues/${queue}/messages`, {
        method: "POST",
        headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify({ messages: [message] }),
        signal: AbortSignal.timeout(20_000),
      });
      if (answer.ok) return;
    } catch {
      // The server is gone; the next one knows whether it took the message.
    }
    await pause(50);
  }
}

/** Runs the loop on a server that is up and empty; `waitMs`: how long the runs may take after the last kill. */
export async function workflowsKilled(server: MillraceProcess, rounds: number, waitMs: number): Promise<WorkflowsKilled> {
  const number = seed();
  const random = chance(number);
  const { call, createQueue, receive, ack } = api(server);
  const payments = await createQueue({ name: "payments" });
  await createQueue({ name: "orders" });
  await createQueue({ name: "results" });
  await call("POST", "/apps", { name: "shop", mode: "pull", notifications: { queueId: "results", on: ["completed", "failed"] } });
  const target = { kind: "workflow", appId: "shop", workflow: "order" };
  await call("POST", "/subscriptions", { queueId: "orders", target: { ...target, mode: "start" } });
  const resume = { ...target, mode: "resume", correlationAttribute: "order", keepUnmatchedSeconds: 3_600 };
  await call("POST", "/subscriptions", { queueId: "payments", target: resume });
  const worker = startWorker(server, payments.id);

  const orders: string[] = [];
  let sending = true;
  const sender = (async (): Promise<void> => {
    while (sending) {
      const order = String(orders.length + 1);
      orders.push(order);
      const start = () => sendOnce(server, "orders", `o${order}`, { body: order });
      const pay = () => sendOnce(server, "payments", `p${order}`, { body: `paid ${order}`, attributes: { order: `order:${order}` } });
      // A payment may come before its order's run, and before that run waits.
      const inTurn = random() < 0.5 ? [start, pay] : [pay, start];
      for (const act of inTurn) await act();
    }
  })();

  try {
    for (let round = 0; round < rounds; round++) {
      const before = orders.length;
      while (orders.length < before + 10 + Math.floor(random() * 30)) await pause(5);
      await server.kill("SIGKILL");
      await server.start();
    }
    sending = false;
    await sender;

    const results = new Map<string, string[]>();
    const deadline = performance.now() + waitMs;
    while (results.size < orders.length && performance.now() < deadline) {
      const messages = await receive("results");
      for (const { body = "null" } of messages) {
        const { runId, status, output } = JSON.parse(body) as { runId: string; status: string; output: object | undefined };
        results.set(runId, [...(results.get(runId) ?? []), `${status} ${JSON.stringify(output)}`]);
      }
      if (messages.length > 0)
        await ack(
          "results",
          messages.map(({ receipt }) => receipt),
        );
    }
    const runs: { id: string; status: string; error?: unknown }[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: { runs: typeof runs; nextCursor: string | null } = await call("GET", `/apps/shop/runs?limit=200${query}`);
      runs.push(...page.runs);
      cursor = page.nextCursor;
    }

    const violations = worker.again.map((order) => `order ${order} was placed again after its step was recorded`);
    if (runs.length !== orders.length) violations.push(`${orders.length} orders started ${runs.length} runs`);
    for (const { id, status, error } of runs) {
      if (status !== "completed") violations.push(`run ${id} is ${status}: ${JSON.stringify(error)}`);
      if (results.get(id)?.length !== 1) violations.push(`run ${id} has ${results.get(id)?.length ?? 0} results`);
    }
    const told = [...results.values()].flat().sort();
    const wanted = orders.map((order) => `completed ${JSON.stringify({ order, paid: `paid ${order}` })}`).sort();
    if (JSON.stringify(told) !== JSON.stringify(wanted)) violations.push("the results are not one for each order, with its own payment");
    return { violations, orders: orders.length };
  } catch (error) {
    throw new Error(`seed ${number}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  } finally {
    sending = false;
    await worker.stop();
  }
}
