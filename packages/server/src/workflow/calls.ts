/**
 * The calls by which queues reach workflows (W12, W14): one message starts a run, or resumes those that wait for it. Calls of all
 * subscriptions gather into common transactions; an outcome that is done is settled with its message.
 */
import { Fault } from "@millrace/contract";
import { protocolLimits, workflowMessage } from "@millrace/contract/wire";
import type { ResumeOutcome, ResumeRow } from "../store/resume.ts";
import type { StartOutcome, StartRow } from "../store/start.ts";
import type { Store } from "../store/store.ts";
import type { ResumeTarget, StartTarget } from "../store/subscription.ts";
import type { ClaimedMessage } from "../store/types.ts";
import type { CallOutcome } from "./call-answer.ts";
import { coalesce } from "./coalesce.ts";
import { runIdOf } from "./run-id.ts";

/** The key of a wait. */
const KEY = /^[A-Za-z0-9_.:-]{1,256}$/;
/** What travels in one transaction; resumes may each wake many runs. */
const STARTS = { most: 100, width: 2 };
const RESUMES = { most: 20, width: 2 };

/** The queue that a call's message is leased in; `leaseMs` is how long. */
export interface CallingQueue {
  projectNo: number;
  projectId: string;
  no: number;
  id: string;
  fifo: boolean;
  leaseMs: number;
}

export interface Calls {
  /** Rejects only for the store's sake. */
  start(queue: CallingQueue, target: StartTarget, message: ClaimedMessage): Promise<CallOutcome>;
  resume(queue: CallingQueue, target: ResumeTarget, message: ClaimedMessage): Promise<CallOutcome>;
}

/** A message whose lease ended while it was being dealt with is somebody else's by now. */
async function orStale<Outcome>(call: Promise<Outcome>): Promise<Outcome | "stale"> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Fault && error.code === "receipt_mismatch") return "stale";
    throw error;
  }
}

/** Makes the calls of one server. */
export function createCalls(store: Store): Calls {
  const start = coalesce<StartRow, StartOutcome>((rows) => store.run("startRuns", rows), STARTS);
  const resume = coalesce<ResumeRow, ResumeOutcome>((rows) => store.run("resumeRuns", rows), RESUMES);
  const encoded = (queue: CallingQueue, message: ClaimedMessage): Uint8Array =>
    new TextEncoder().encode(workflowMessage(message, { id: queue.id, fifo: queue.fifo }));
  const held = (queue: CallingQueue, { seq, receipt }: ClaimedMessage) => ({
    projectNo: queue.projectNo,
    queueNo: queue.no,
    seq,
    receipt,
  });

  return {
    async start(queue, { appId, workflow }, message) {
      // The wrapper around the message does not count (Q5).
      if (message.body.length > protocolLimits.payloadBytes) return "input_too_large";
      const { messageId } = message;
      const row: StartRow = {
        ...held(queue, message),
        appId,
        workflow,
        runId: runIdOf(queue.projectId, queue.id, messageId),
        input: encoded(queue, message),
        source: { kind: "message", queueId: queue.id, messageId },
      };
      return orStale(start(row));
    },
    async resume(queue, target, message) {
      const key = message.attributes?.[target.correlationAttribute];
      if (key === undefined) return "no_attribute";
      if (!KEY.test(key)) return "invalid_key";
      const row: ResumeRow = {
        ...held(queue, message),
        appId: target.appId,
        key,
        message: encoded(queue, message),
        keepMs: target.keepUnmatchedSeconds * 1000,
        leaseMs: queue.leaseMs,
      };
      for (;;) {
        const outcome = await orStale(resume(row));
        if (outcome !== "more") return outcome;
      }
    },
  };
}
