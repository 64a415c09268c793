/**
 * A pull worker of one workflow, by docs/protocol.md alone: it places an order once, waits for its payment, and answers both. Its process
 * never dies; the server it talks to does. What it did is kept, to be held against what came of it.
 */

/** What the worker calls. */
export interface WorkerCalls {
  url: string;
  apiKey: string;
}

/** A worker at work. */
export interface Worker {
  /** How often an order was placed, by its number. */
  readonly placed: Map<string, number>;
  /** Orders that were placed once more although the record of it had been answered. */
  readonly again: string[];
  stop(): Promise<void>;
}

interface Task {
  token: string;
  input: string;
  journal: { steps: { id: string; status: string; result?: string }[] };
}

const announced = { protocol: "1.2", buildId: "1", workflows: [{ name: "order" }] };
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts a worker of the app `shop`, whose runs wait on the queue `paymentsId`. */
export function startWorker({ url, apiKey }: WorkerCalls, paymentsId: string): Worker {
  const placed = new Map<string, number>();
  const recorded = new Set<string>();
  const again: string[] = [];
  const under = new Set<Promise<void>>();
  let stopped = false;

  const post = async <T>(path: string, body: object): Promise<T | null> => {
    const answer = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ protocol: "1.2", ...body }),
      signal: AbortSignal.timeout(25_000),
    });
    return answer.ok ? ((await answer.json()) as T) : null;
  };
  /** Reports until the server has answered, whichever process answers; `false`: another execution has the run by now. */
  const report = async (path: string, execution: object): Promise<boolean> => {
    while (!stopped) {
      try {
        const answer = await post<{ executions: { ok: boolean }[] }>(`/v1/workflow-executions/${path}`, { executions: [execution] });
        if (answer !== null) return answer.executions[0]?.ok === true;
      } catch {
        // The server is gone: the same report goes to the next one.
      }
      await pause(50);
    }
    return false;
  };

  const execute = async ({ token, input, journal }: Task): Promise<void> => {
    const { body: order } = JSON.parse(input) as { body: string };
    const known = new Map(journal.steps.map((step) => [step.id, step]));
    if (known.get("place")?.status !== "completed") {
      if (recorded.has(order)) again.push(order);
      placed.set(order, (placed.get(order) ?? 0) + 1);
      const step = { id: "place", type: "run", status: "completed", attempt: 1, result: JSON.stringify(order) };
      if (!(await report("steps", { token, steps: [step] }))) return;
      recorded.add(order);
    }
    const paid = known.get("paid");
    if (paid?.status === "completed") {
      const { body } = JSON.parse(paid.result ?? "null") as { body: string };
      await report("end", { token, answer: { status: "completed", output: JSON.stringify({ order, paid: body }) } });
      return;
    }
    const times = { timeoutMs: 86_400_000, lookbackMs: 3_600_000 };
    const wait = { id: "paid", type: "wait", status: "pending", queueId: paymentsId, key: `order:${order}`, ...times };
    await report("end", { token, answer: { status: "suspended", steps: paid === undefined ? [wait] : [] } });
  };

  const polling = (async (): Promise<void> => {
    while (!stopped) {
      try {
        const path = "/v1/organizations/default/projects/default/apps/shop/poll";
        const answer = await post<{ tasks: Task[] }>(path, { ...announced, max: 20, waitSeconds: 1 });
        for (const task of answer?.tasks ?? []) {
          const execution = execute(task).finally(() => under.delete(execution));
          under.add(execution);
        }
      } catch {
        await pause(50);
      }
    }
  })();

  return {
    placed,
    again,
    async stop() {
      stopped = true;
      await polling;
      await Promise.all(under);
    },
  };
}
