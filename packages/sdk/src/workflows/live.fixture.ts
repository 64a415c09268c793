/** A whole server in this process with what workflows need: apps by push and by pull, queues, runs that can be waited for. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { JournalStep } from "@millrace/contract/wire";
import { type Live, live } from "../live.fixture.ts";
import type { ConnectionOptions } from "./connection.ts";
import { type ServeOptions, serve, toNodeHandler } from "./serve.ts";
import { worker } from "./worker.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** A run as the API shows it, as far as tests look. */
export interface ShownRun {
  id: string;
  status: string;
  attempt: number;
  executions: number;
  reason: { code: string; message: string } | null;
  error: { code: string; name: string; message: string } | null;
}

export interface LiveWorkflows {
  server: Live;
  connection: ConnectionOptions;
  /** A call relative to the project; answers the status and the body. */
  api<T>(method: string, path: string, body?: unknown): Promise<T>;
  /** Makes a push app that serves these workflows, or at each call those that are deployed then. */
  push(name: string, workflows: readonly AnyWorkflow[] | (() => readonly AnyWorkflow[]), options?: ServeOptions): Promise<void>;
  /** Makes a pull app and works for it until the test is over, or until `stop`, which answers how many executions that were. */
  pull(name: string, workflows: readonly AnyWorkflow[]): Promise<{ stop(): Promise<number> }>;
  /** Starts a run; answers its id. */
  start(app: string, workflow: string, input?: unknown): Promise<string>;
  /** The run once it is as asked for. */
  run(app: string, id: string, good: (run: ShownRun) => boolean): Promise<ShownRun>;
  /** As `run`, once it has ended. */
  ended(app: string, id: string): Promise<ShownRun & { output: unknown }>;
  steps(app: string, id: string): Promise<(Pick<JournalStep, "id" | "type" | "status" | "attempt"> & { result?: unknown })[]>;
  close(): Promise<void>;
}

const isOver = ({ status }: ShownRun): boolean => ["completed", "failed", "cancelled", "timedOut"].includes(status);

export async function liveWorkflows(): Promise<LiveWorkflows> {
  const server = await live();
  const connection = { apiKey: server.apiKey, organizationId: "acme", projectId: "shop", baseUrl: server.url };
  const closers: (() => Promise<unknown> | unknown)[] = [];
  const api = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${server.url}/v1/organizations/acme/projects/shop${path}`, {
      method,
      headers: { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  };
  const run: LiveWorkflows["run"] = async (app, id, good) => {
    const seen = await server.until(() => api<ShownRun>("GET", `/apps/${app}/runs/${id}`), good);
    if (!good(seen)) throw new Error(`run ${id} is ${JSON.stringify(seen)}`);
    return seen;
  };

  return {
    server,
    connection,
    api,
    async push(name, workflows, options) {
      let secret = "not known yet";
      // The app is asked for its workflows while it is made, before its secret is known: what comes then is refused.
      const deployed = typeof workflows === "function" ? workflows : () => workflows;
      const listener = toNodeHandler((request) => serve(deployed(), { signingSecret: secret, ...options })(request));
      const http = createServer((request, response) => void listener(request, response)).listen(0, "127.0.0.1");
      await once(http, "listening");
      closers.push(() => {
        http.close();
        http.closeAllConnections();
      });
      const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
      ({ signingSecret: secret } = await api<{ signingSecret: string }>("POST", "/apps", { name, mode: "push", url }));
      await api("POST", `/apps/${name}/sync`);
    },
    async pull(name, workflows) {
      const { apps } = await api<{ apps: { name: string }[] }>("GET", "/apps");
      if (!apps.some((app) => app.name === name)) await api("POST", "/apps", { name, mode: "pull" });
      const stop = new AbortController();
      const working = worker({ ...connection, app: name, workflows, signal: stop.signal });
      const stopped = async () => {
        stop.abort();
        return (await working).executions;
      };
      closers.push(stopped);
      await server.until(
        () => api<{ workflows: unknown[] }>("GET", `/apps/${name}/workflows`),
        (answer) => answer.workflows.length === workflows.length,
      );
      return { stop: stopped };
    },
    async start(app, workflow, input) {
      return (await api<{ id: string }>("POST", `/apps/${app}/runs`, { workflow, input })).id;
    },
    run,
    async ended(app, id) {
      const ended = await run(app, id, isOver);
      const { output } = await api<{ output: unknown }>("GET", `/apps/${app}/runs/${id}/output`);
      return { ...ended, output };
    },
    steps: async (app, id) =>
      (await api<{ steps: Awaited<ReturnType<LiveWorkflows["steps"]>> }>("GET", `/apps/${app}/runs/${id}/steps`)).steps,
    async close() {
      for (const close of closers) await close();
      await server.close();
    },
  };
}
