/**
 * A push app as a lane of the dispatcher (W5, W6): claims wake-ups of its runs, begins each run's execution, posts the task and stores
 * what the answer says. A response that is no answer is a lost execution: its wake-up comes again, and the run is executed anew from
 * its journal (W9).
 */
import { backoffMs, buildWorkflowCall, type SigningKey } from "@millrace/contract/wire";
import type { Cancel } from "../clock.ts";
import type { Ownership } from "../cluster/ownership.ts";
import { createTenure } from "../cluster/tenure.ts";
import { AHEAD_MS } from "../delivery/dispatcher.ts";
import {
  createEndpointLane,
  type Deliveries,
  type EndpointLaneDeps,
  type Leased,
  type Outgoing,
  type Terms,
} from "../delivery/endpoint-lane.ts";
import { hmac } from "../delivery/hmac.ts";
import type { LaneSource } from "../delivery/lane.ts";
import { signingKeys } from "../identity/signing-keys.ts";
import type { Vault } from "../identity/vault.ts";
import type { AppLane } from "../store/app.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import type { Executions } from "./executions.ts";
import { type PushAnswer, readPushAnswer } from "./push-answer.ts";

/** How long one execution may take. */
const EXECUTION_MS = 300_000;
/** How long a wake-up is hidden, and how often that is renewed while its request is open: a server that dies holds up its runs no longer. */
const LEASE_MS = 30_000;
const RENEWED_MS = 10_000;
/** Between two tries of a lost execution. */
const AGAIN = { firstMs: 1_000, maxMs: 60_000 };
/** How often a failure of an app that fails anyway is written down, and a success of one that is well. */
const FAILED_MS = 1_000;
const SUCCEEDED_MS = 5_000;

export interface PushLaneDeps extends EndpointLaneDeps {
  store: Store;
  vault: Vault;
  executions: Executions;
  ownership: Ownership;
  random: () => number;
  version: string;
  /** Hears of the build that answered, when it is not the one that the app is known by. */
  otherBuild: (appNo: number) => void;
}

/** A wake-up; `token` once its execution has begun, `over` once nothing is left to do for it. */
interface Work {
  message: ClaimedMessage;
  token: string;
  over: boolean;
}

export interface PushLane extends LaneSource<Leased<Work>> {
  /** Puts what the store says in force; `null`: the app is gone. */
  set(row: AppLane | null): void;
  /** Renews no lease any more: the process is stopping. */
  stop(): void;
}

/** Makes the lane of a push app. */
export function createPushLane(deps: PushLaneDeps, first: AppLane): PushLane {
  const { store, clock, executions, log } = deps;
  const { no, id, queueNo, resourceName } = first.app;
  const label = { app: resourceName };
  let row = first;
  let gone = false;
  let keys = keysOf(deps, first);
  let notedAt = Number.NEGATIVE_INFINITY;

  const terms = (): Terms => ({
    concurrency: row.app.maxConcurrency,
    rateLimit: null,
    timeoutMs: EXECUTION_MS,
    leaseMs: LEASE_MS,
  });
  const open = new Set<Work>();
  let renewal: Cancel | undefined;
  let stopped = false;
  const renew = async (): Promise<void> => {
    const works = [...open];
    const rows = works.map(({ message: { seq, receipt } }) => ({ queueNo, seq, receipt, outcome: "extend" as const, delayMs: LEASE_MS }));
    const results = await store.settle(rows);
    // A lease that is lost is not asked for again; what its execution says is refused.
    for (const [i, work] of works.entries()) if (results[i]?.result !== "extended") open.delete(work);
  };
  const renewLater = (): void => {
    if (renewal !== undefined || open.size === 0 || stopped) return;
    renewal = clock.after(RENEWED_MS, () => {
      renewal = undefined;
      renew()
        .catch((err) => log.warn({ ...label, err }, "leases of executions could not be renewed"))
        .finally(renewLater);
    });
  };
  const note = (
    failing: boolean,
    error: { class: "http" | "timeout" | "connection" | "refused" | "tls"; status?: number; message: string } | null,
  ) =>
    store
      .run("saveAppStatus", no, {
        failing,
        error: error === null ? null : { ...error, agoMs: 0 },
        successAgoMs: failing ? null : 0,
      })
      .catch((err) => log.warn({ ...label, err }, "an app's health was not stored"));

  const deliveries: Deliveries<Work, Outgoing, PushAnswer> = {
    key: resourceName,
    label,
    active: () => !gone && row.app.state === "active" && row.app.url !== null,

    async claim(n, leaseMs, fence) {
      keys();
      const { batches, nextInMs } = await store.claim({ queueNo, batchSize: 1, batches: n, leaseMs, fence });
      return { loads: batches.flat().map((message) => ({ message, token: "", over: false })), nextInMs };
    },

    async request(work, timeoutMs) {
      const { url } = row.app;
      if (url === null) return null;
      const begun = await executions.begin(queueNo, work.message, { appId: id, leaseMs: timeoutMs }).catch((err) => {
        log.warn({ ...label, err }, "an execution could not begin yet");
        return undefined;
      });
      if (begun === undefined) return null;
      if (begun === null) {
        work.over = true;
        return null;
      }
      work.token = begun.token;
      open.add(work);
      renewLater();
      const { headers, body } = buildWorkflowCall(begun, work.message.messageId, {
        hmac,
        keys: keys(),
        wallMs: clock.wall(),
        version: deps.version,
      });
      return { url, headers, body, logged: { ...label, run: begun.run.id, workflow: begun.run.workflow, execution: begun.executionId } };
    },

    read: (_work, result) => readPushAnswer(result, clock.wall()),

    async settle({ load, read }) {
      const { message, token } = load;
      open.delete(load);
      if (!read.ok) {
        const { seq, receipt, attempts } = message;
        const delayMs = read.retryAfterMs ?? backoffMs(attempts, deps.random(), AGAIN);
        await store.settle([{ queueNo, seq, receipt, outcome: "retry", delayMs, error: read.error ?? "" }]);
        return;
      }
      if (read.buildId !== null && read.buildId !== row.app.buildId) deps.otherBuild(no);
      if (read.answer !== null) await executions.end(read.protocol, [{ token, answer: read.answer }]);
    },

    release: async (works) => {
      for (const work of works) open.delete(work);
      const rows = works
        .filter(({ over }) => !over)
        .map(({ message: { seq, receipt } }) => ({ queueNo, seq, receipt, outcome: "release" as const, delayMs: 0 }));
      if (rows.length > 0) await store.settle(rows);
    },

    health({ result, read, endedAt }, flipped) {
      if (!flipped && endedAt - notedAt < (read.ok ? SUCCEEDED_MS : FAILED_MS)) return;
      notedAt = endedAt;
      if (read.ok) {
        void note(false, null);
        return;
      }
      const what = result.kind === "answer" ? ({ class: "http", status: result.status } as const) : { class: result.class };
      void note(true, { ...what, message: read.error ?? "" });
    },
  };

  const tenure = createTenure({
    ownership: deps.ownership,
    store,
    clock,
    queueNo,
    requests: () => ({ batchSize: 1, leaseMs: LEASE_MS + AHEAD_MS, openMs: LEASE_MS + AHEAD_MS }),
    failing: async () => (await store.run("appLane", no))?.app.failing ?? false,
  });
  const lane = createEndpointLane(deps, { terms: terms(), failing: row.app.failing, tenure }, deliveries);
  return {
    ...lane,
    set(next) {
      if (next === null) {
        gone = true;
        return;
      }
      if (next.secret !== row.secret || next.previous?.secret !== row.previous?.secret) keys = keysOf(deps, next);
      row = next;
      lane.set(terms());
    },
    stop() {
      stopped = true;
      renewal?.();
    },
  };
}

/** The keys that sign what a push app is sent. */
export function keysOf(deps: { vault: Vault; clock: EndpointLaneDeps["clock"] }, { app, secret, previous }: AppLane): () => SigningKey[] {
  if (secret === null) return () => [];
  return signingKeys(deps, { owner: app.id, secret, previous });
}
