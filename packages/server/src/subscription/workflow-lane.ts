/**
 * A subscription to a workflow as a lane of the dispatcher (W12, W14): claims single messages and calls the workflow with each. What a
 * call did is stored together with the message's acknowledgement, so only refusals are settled here.
 */
import { type Reading, retryAfterMs } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import { createTenure } from "../cluster/tenure.ts";
import { createEndpointLane, type Deliveries, type Outgoing, openFor, type Terms } from "../delivery/endpoint-lane.ts";
import type { DeliveryResult } from "../delivery/types.ts";
import { lagMs } from "../queue/lag.ts";
import type { LaneRow, LastError, WorkflowTarget } from "../store/subscription.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { answerOf, isDone, readCall } from "../workflow/call-answer.ts";
import type { CallingQueue, Calls } from "../workflow/calls.ts";
import type { Push, PushDeps } from "./push.ts";
import { releaseRows, settleRows } from "./rules.ts";

/** What calls need from outside. */
export type WorkflowLaneDeps = Omit<PushDeps, "vault" | "version"> & { calls: Calls };

interface Sent extends Outgoing {
  deliveryId: string;
}
type Read = Reading & { class: LastError["class"]; blameless: boolean };

/** Makes the lane of a subscription to a workflow. */
export function createWorkflowLane(deps: WorkflowLaneDeps, first: LaneRow<WorkflowTarget>): Push<WorkflowTarget> {
  const { store, clock, records, calls } = deps;
  const { id, queueNo, resourceName } = first.subscription;
  const label = { subscription: resourceName };
  let row = first;
  let gone = false;

  // A call takes as long as its transaction: it has the queue's own lease (W12).
  const terms = (): Terms => {
    const { rateLimit, visibilityTimeoutMs: leaseMs } = row.queue.settings;
    return { concurrency: row.subscription.maxConcurrency, rateLimit, timeoutMs: leaseMs, leaseMs };
  };
  const queue = (): CallingQueue => {
    const { projectNo, projectId, queueId } = row.subscription;
    const { type, settings } = row.queue;
    return { projectNo, projectId, no: queueNo, id: queueId, fifo: type === "fifo", leaseMs: settings.visibilityTimeoutMs };
  };
  const call = async (message: ClaimedMessage): Promise<DeliveryResult> => {
    const began = performance.now();
    const { target } = row.subscription;
    const outcome = target.mode === "start" ? calls.start(queue(), target, message) : calls.resume(queue(), target, message);
    const answer = await answerOf(outcome);
    return { kind: "answer", truncated: false, durationMs: performance.now() - began, ...answer };
  };

  const deliveries: Deliveries<ClaimedMessage[], Sent, Read> = {
    key: resourceName,
    label,
    active: () => !gone && row.subscription.state === "active" && !row.queue.settings.paused,

    async claim(n, lease, fence) {
      const { batches, nextInMs } = await store.claim({ queueNo, batchSize: 1, batches: n, leaseMs: lease, fence });
      return { loads: batches, nextInMs, lagMs: lagMs(batches[0]?.[0], row.queue.settings.retentionMs, lease) };
    },

    request() {
      const deliveryId = uuidv7();
      const { appId, workflow } = row.subscription.target;
      return { url: `workflow:${appId}/${workflow}`, headers: {}, body: new Uint8Array(), deliveryId, logged: { ...label, deliveryId } };
    },

    carry: ([message]) => call(message as ClaimedMessage),

    read(_, result) {
      const read = readCall(result.kind === "answer" ? result : { status: 503, headers: {}, body: new Uint8Array() });
      const { slowDown, error } = read;
      const maxMs = row.queue.settings.visibilityTimeoutMs;
      const after = result.kind === "answer" && slowDown ? retryAfterMs(result.headers["retry-after"], clock.wall(), maxMs) : null;
      const outcome = read.ok ? ({ kind: "ack" } as const) : ({ kind: "retry", delayMs: after } as const);
      return { ok: read.ok, slowDown, error, outcomes: [outcome], class: read.class, blameless: read.class === "message" };
    },

    async settle({ load, read, result }) {
      if (result.kind === "answer" && isDone(result)) return [];
      const { type, settings } = row.queue;
      return store.settle(settleRows({ no: queueNo, type, settings }, load, read, deps.random));
    },

    release: (loads) => store.settle(releaseRows(queueNo, loads.flat())),

    health({ result, read, endedAt: at }, flipped) {
      if (read.ok) return records.note(id, { queueNo, failing: false, successAt: at }, flipped);
      const status = result.kind === "answer" ? { status: result.status } : {};
      records.note(id, { queueNo, failing: true, error: { at, class: read.class, ...status, message: read.error ?? "" } }, flipped);
    },

    closed({ load, sent, result, read, startedAt: at }) {
      if (read.ok && !row.subscription.recordAttempts) return;
      records.attempt({
        at,
        queueNo,
        subscriptionId: id,
        deliveryId: sent.deliveryId,
        durationMs: Math.round(result.durationMs),
        outcome: read.ok ? "delivered" : "failed",
        class: read.ok ? null : read.class,
        status: result.kind === "answer" ? result.status : null,
        message: read.error,
        messageIds: load.map(({ messageId }) => messageId),
        answer: null,
      });
    },
  };

  const tenure = createTenure({
    ownership: deps.ownership,
    store,
    clock,
    queueNo,
    requests: () => ({ batchSize: 1, ...openFor(terms()) }),
    failing: async () => (await store.run("loadSubscription", queueNo))?.subscription.failing ?? false,
  });
  const lane = createEndpointLane(deps, { terms: terms(), failing: row.subscription.failing, tenure }, deliveries);
  return {
    ...lane,
    set(next) {
      if (next === null) {
        gone = true;
        return;
      }
      row = next;
      lane.set(terms());
    },
  };
}
