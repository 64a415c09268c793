/**
 * What the suites of the engine share: a real store on either engine, the engine over it, the server's routes for executions, a real push
 * app, and time that moves only when told.
 */
import type { AddressInfo } from "node:net";
import { certificates, resolver } from "@millrace/testkit";
import { Registry } from "prom-client";
import { createAttempt } from "../delivery/attempt.ts";
import { createDispatcher } from "../delivery/dispatcher.ts";
import { createPressure } from "../delivery/pressure.ts";
import { createApp } from "../http/app.ts";
import { closeApp } from "../http/close.ts";
import { createLoad } from "../http/load.ts";
import { createAuthenticator } from "../identity/authenticate.ts";
import { createVault } from "../identity/vault.ts";
import { type Ground, openWorld, type World } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import type { RunRow, StepRow } from "../store/run-rows.ts";
import type { Store } from "../store/store.ts";
import { type Apps, createApps } from "./app.ts";
import { createWorkflowEngine, type WorkflowEngine } from "./engine.ts";
import { type Executor, openExecutor, type Workflow } from "./executor.suite.ts";
import { createRuns, type Runs } from "./run.ts";

export interface EngineWorld {
  readonly world: World;
  readonly executor: Executor;
  readonly engine: WorkflowEngine;
  readonly apps: Apps;
  readonly runs: Runs;
  readonly logged: object[];
  /** The address of the calls of executions. */
  readonly url: string;
  /** Makes a push app of these functions, synced; or a pull app. */
  app(workflows: Record<string, Workflow>, mode?: "push" | "pull"): Promise<{ row: AppRow; secret: string | null }>;
  start(app: AppRow, workflow: string, input?: unknown): Promise<string>;
  run(app: AppRow, id: string): Promise<RunRow>;
  steps(app: AppRow, id: string): Promise<StepRow[]>;
  output(app: AppRow, id: string): Promise<unknown>;
  /** Waits until nothing is under way and the run is in a state of its own; time does not move. */
  until(app: AppRow, id: string, reached: (run: RunRow) => boolean): Promise<RunRow>;
  /** Waits for a state of a run while something may be under way. */
  seen(app: AppRow, id: string, reached: (run: RunRow) => boolean): Promise<RunRow>;
  /** Waits as `until` does for the run's end, and moves time by `stepMs` whenever nothing happens. */
  ended(app: AppRow, id: string, stepMs?: number): Promise<RunRow>;
  /** Waits until nothing is under way, then advances the clock. */
  pass(ms: number): Promise<void>;
  /** Ends this process's engine and store and starts others on the same data. */
  restart(): Promise<void>;
  /** Another node on the same database; it ends with the world. */
  node(): Promise<WorkflowEngine>;
  close(): Promise<void>;
}

/** How long a test waits for what must happen, in real milliseconds. */
const PATIENCE_MS = 30_000;

/** Opens a world with one executor, reached as app.example.com. */
export async function openEngineWorld(kind: Ground): Promise<EngineWorld> {
  const world = await openWorld(kind);
  await world.fresh();
  const authority = certificates();
  const executor = await openExecutor(authority.issue(["app.example.com"]));
  const policy = {
    allowHosts: ["app.example.com"],
    allowCidrs: [],
    allowHttp: false,
    allowPorts: [executor.receiver.port],
    ownHosts: [],
  };
  const vault = createVault([Buffer.alloc(32, 7).toString("base64")]);
  const logged: object[] = [];
  const log = { debug: () => {}, info: (fields: object) => logged.push(fields), warn: (fields: object) => logged.push(fields) };

  const open = async (store: Store = world.store) => {
    const { clock } = world;
    const attempts = createAttempt({ policy, ca: [authority.ca], resolve: resolver({ "app.example.com": "127.0.0.1" }) });
    const load = createLoad({ memoryCapBytes: 4 * 1024 ** 3, maxLoopDelayMs: 60_000 });
    let url = "";
    const engine = createWorkflowEngine({
      store,
      clock,
      vault,
      dispatcher: createDispatcher({ clock, report: (err, lane) => logged.push({ err, lane }) }),
      pressure: createPressure(clock, () => {}),
      attempt: attempts.attempt,
      version: "0.0.0-test",
      log,
      callbackUrl: () => `${url}/v1/workflow-executions`,
      // The middle of the jitter: pauses are exactly 1, 2, 4 … seconds.
      random: () => 0.5,
    });
    const app = createApp({
      handlers: {},
      authenticator: createAuthenticator({ store, clock, vault, onError: () => {} }),
      vault,
      clock,
      load,
      registry: new Registry(),
      logger: { error: (fields) => logged.push(fields) },
      ready: async () => true,
      executions: engine.executions,
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    await engine.start();
    const apps = createApps({ store, clock, vault, policy, engine, report: (err) => logged.push({ err }), onDelete: () => {} });
    return { attempts, load, engine, app, apps, runs: createRuns({ store }), url };
  };
  let state = await open();
  const shut = async ({ engine, app, attempts, load }: typeof state = state): Promise<void> => {
    await engine.stop(0);
    await closeApp(app, 0);
    attempts.close();
    load.close();
  };
  const nodes: (() => Promise<void>)[] = [];
  const patience = (): (() => void) => {
    const end = performance.now() + PATIENCE_MS;
    return () => {
      if (performance.now() > end) throw new Error("what was waited for did not happen");
    };
  };

  let apps = 0;
  const it: EngineWorld = {
    world,
    executor,
    logged,
    get engine() {
      return state.engine;
    },
    get apps() {
      return state.apps;
    },
    get runs() {
      return state.runs;
    },
    get url() {
      return `${state.url}/v1/workflow-executions`;
    },
    async app(workflows, mode = "push") {
      executor.workflows = workflows;
      const url = mode === "push" ? { url: `https://app.example.com:${executor.receiver.port}/workflows` } : {};
      const made = await state.apps.create(world.projectNo, { name: `app-${++apps}`, mode, ...url, notifications: null }, null);
      const row = (await state.apps.find(world.projectNo, made.id)) as AppRow;
      if (mode === "push") await state.engine.sync(row.no);
      return { row, secret: made.signingSecret };
    },
    start: async (app, workflow, input) => (await state.runs.start(app, { workflow, input }, null)).id,
    async run(app, id) {
      const run = await state.runs.find(app, id);
      if (run === null) throw new Error(`there is no run ${id}`);
      return run;
    },
    async steps(app, id) {
      const { no } = await it.run(app, id);
      return (await world.store.run("listSteps", no, { after: null, limit: 1_000, results: true })).steps;
    },
    async output(app, id) {
      return state.runs.payload(await it.run(app, id), "output");
    },
    async until(app, id, reached) {
      for (const patient = patience(); ; patient()) {
        await state.engine.rest();
        const run = await it.run(app, id);
        if (reached(run)) return run;
      }
    },
    async seen(app, id, reached) {
      for (const patient = patience(); ; patient()) {
        const run = await it.run(app, id);
        if (reached(run)) return run;
      }
    },
    async ended(app, id, stepMs = 1_000) {
      for (const patient = patience(); ; patient()) {
        await state.engine.rest();
        const run = await it.run(app, id);
        if (run.endedAt !== null) return run;
        world.clock.advance(stepMs);
      }
    },
    async pass(ms) {
      await state.engine.rest();
      world.clock.advance(ms);
    },
    async restart() {
      await shut();
      await world.restart();
      state = await open();
    },
    async node() {
      const store = await world.peer();
      const node = await open(store);
      nodes.push(async () => {
        await shut(node);
        await store.close();
      });
      return node.engine;
    },
    async close() {
      for (const close of nodes) await close();
      await shut();
      await executor.close();
      await world.close();
    },
  };
  return it;
}
