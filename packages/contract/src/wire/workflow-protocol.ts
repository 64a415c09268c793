/**
 * The workflow protocol (docs/protocol.md) as types, and the signed requests that carry it to a push app. Payloads (`input`, `result`,
 * `output`) are JSON texts: nothing between the two sides reads them. Instants and durations are milliseconds.
 */
import type { Making, WireRequest } from "./format.ts";
import { ezghSignature, standardWebhooksSignature } from "./signing.ts";
import { utf8 } from "./utf8.ts";

/** The version that this side speaks. */
export const protocolVersion = "1.2";

/** Whether `version` is of the major that this side speaks. */
export function speaks(version: string): boolean {
  return /^1\.\d{1,6}$/.test(version);
}

/** Whether an executor of that version knows what came with 1.`minor`. */
export function knows(version: string, minor: number): boolean {
  return speaks(version) && Number(version.slice(2)) >= minor;
}

/** Bounds of the protocol, in bytes where not said otherwise. */
export const protocolLimits = {
  payloadBytes: 262_144,
  outputBytes: 4 * 1024 * 1024,
  journalBytes: 64 * 1024 * 1024,
  /** Steps of a run. */
  steps: 10_000,
  /** A page of the journal. */
  inlineBytes: 4 * 1024 * 1024,
  /** Executions and steps in one call. */
  callExecutions: 100,
  callSteps: 1_000,
} as const;

/** An error of a step or a run. `code` is `user` for what the workflow's code threw. */
export interface RunError {
  code?: string | undefined;
  name: string;
  message: string;
  stack?: string | undefined;
}

export type StepType = "run" | "send" | "value" | "sleep" | "wait" | "child";
export type StepStatus = "pending" | "retrying" | "completed" | "failed" | "cancelled";

/** A step as the journal has it. */
export interface JournalStep {
  id: string;
  type: StepType;
  status: StepStatus;
  /** Tries that ended, of `run` and `send`. */
  attempt?: number | undefined;
  /** Of a finished step: its place in the order in which the code learns of the ends of steps. */
  order?: number | undefined;
  /** When a `retrying` step may be tried again. */
  retryAt?: number | undefined;
  /** When a `pending` sleep or wait is over. */
  until?: number | undefined;
  /** The run that a `child` step started. */
  runId?: string | undefined;
  result?: string | null | undefined;
  error?: RunError | undefined;
}

/** A page of a journal; `next` fetches the one after it. */
export interface JournalPage {
  steps: JournalStep[];
  next: string | null;
}

/** One execution of a run, as the executor is given it. */
export interface Task {
  type: "execute";
  protocol: string;
  executionId: string;
  token: string;
  callbackUrl: string;
  now: number;
  leaseMs: number;
  run: { id: string; appId: string; workflow: string; attempt: number; createdAt: number };
  input: string | null;
  cancelled: boolean;
  journal: JournalPage;
}

interface Tried {
  type: "run" | "send";
  id: string;
  attempt: number;
  startedAt?: number | undefined;
}

/** A step as an executor records it. */
export type StepRecord =
  | (Tried & { status: "completed"; result?: string | null | undefined })
  | (Tried & { status: "failed"; error: RunError })
  | (Tried & { status: "retrying"; error: RunError; delayMs: number })
  | { type: "value"; id: string; status: "completed"; result?: string | null | undefined }
  | { type: "sleep"; id: string; status: "pending"; forMs?: number | undefined; until?: number | undefined }
  | {
      type: "wait";
      id: string;
      status: "pending";
      queueId: string;
      key: string;
      timeoutMs: number;
      lookbackMs?: number | undefined;
    }
  | {
      type: "child";
      id: string;
      status: "pending";
      workflow: string;
      input?: string | null | undefined;
      appId?: string | undefined;
      runId?: string | undefined;
      wait: boolean;
    };

export type BlockedCode = "nondeterminism" | "workflow_not_found" | "protocol_unsupported";

/** What ends an execution. */
export type ExecutionAnswer =
  | { status: "completed"; output?: string | null | undefined; steps?: StepRecord[] | undefined }
  | { status: "failed"; error: RunError; steps?: StepRecord[] | undefined }
  | { status: "cancelled"; error?: RunError | undefined; steps?: StepRecord[] | undefined }
  | { status: "suspended"; again?: boolean | undefined; steps?: StepRecord[] | undefined }
  | { status: "blocked"; reason: { code: BlockedCode; message: string } };

/** A workflow as an executor announces it. */
export interface AnnouncedWorkflow {
  name: string;
  timeoutMs?: number | null | undefined;
  concurrency?: number | null | undefined;
}

/** What an executor says of itself, on sync and with every poll. */
export interface Announcement {
  protocol: string;
  buildId: string;
  sdk?: string | undefined;
  workflows: AnnouncedWorkflow[];
}

/** What asks a push app for its announcement. */
export interface SyncRequest {
  type: "sync";
  protocol: string;
  appId: string;
}

/** The signed request that carries a task or a sync to a push app; `id` becomes the `webhook-id`. */
export function buildWorkflowCall(call: Task | SyncRequest, id: string, making: Making): WireRequest {
  const body = utf8(JSON.stringify(call));
  const seconds = Math.floor(making.wallMs / 1000);
  return {
    headers: {
      "content-type": "application/json",
      "user-agent": `Millrace/${making.version}`,
      "ezgh-signature": ezghSignature(making.hmac, making.keys, seconds, body),
      "webhook-id": id,
      "webhook-timestamp": String(seconds),
      "webhook-signature": standardWebhooksSignature(making.hmac, making.keys, id, seconds, body),
    },
    body,
  };
}
