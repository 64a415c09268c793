/**
 * What a record of a step changes, decided from the record and the step as it is: pure. A finished step never changes, and what was
 * fixed when a step was first recorded (the end of a sleep, the message a wait is for) stays (WF-03).
 */
import { knows, protocolLimits, type RunError, type StepRecord, type StepStatus } from "@millrace/contract/wire";
import type { StepRow } from "./run-rows.ts";

/** What to store of a step. `dueAt` of a new sleep, wait or retry asks for a wake-up at that instant. */
export interface StepChange {
  record: StepRecord;
  isNew: boolean;
  status: StepStatus;
  attempt: number;
  dueAt: number | null;
  error: RunError | null;
  /** JSON bytes. */
  result: Uint8Array | null;
  /** What it adds to the size of the journal. */
  bytes: number;
}

/** `same`: the step stands as it is. `mismatch`: the journal has another type of step under the id. */
export type Decision = { kind: "same" } | { kind: "mismatch"; message: string } | { kind: "change"; change: StepChange };

/** Whether nothing changes a step of this status any more. */
export const isFinished = (status: StepStatus): boolean => status !== "pending" && status !== "retrying";

const encoder = new TextEncoder();

/** JSON text as it is stored; `null` for none. */
export const bytesOf = (json: string | null | undefined): Uint8Array | null => (json == null ? null : encoder.encode(json));

const failure = (code: string, message: string): RunError => ({ code, name: code, message });

/** Decides about one record. `minor` is the executor's minor version, `cancelled`: the run's cancellation was asked for. */
export function decideStep(
  record: StepRecord,
  step: StepRow | undefined,
  { now, protocol, cancelled }: { now: number; protocol: string; cancelled: boolean },
): Decision {
  if (step !== undefined && step.type !== record.type)
    return {
      kind: "mismatch",
      message: `step ${JSON.stringify(record.id)} is recorded as ${step.type}, and the code came with ${record.type} under that id`,
    };
  if (step !== undefined && (isFinished(step.status) || record.status === "pending")) return { kind: "same" };
  const change: StepChange = {
    record,
    isNew: step === undefined,
    status: record.status,
    attempt: "attempt" in record ? record.attempt : 1,
    dueAt: null,
    error: null,
    result: null,
    bytes: 0,
  };
  if (record.status === "retrying") {
    // The same try told twice.
    if (step !== undefined && step.attempt >= record.attempt) return { kind: "same" };
    change.dueAt = now + record.delayMs;
    change.error = record.error;
  } else if (record.status === "failed") change.error = record.error;
  else if (record.status === "completed") complete(change, bytesOf(record.result));
  else if (cancelled) change.status = "cancelled";
  else begin(change, record, now, protocol);
  change.bytes = (change.result?.length ?? 0) + (change.error === null ? 0 : JSON.stringify(change.error).length);
  return { kind: "change", change };
}

function complete(change: StepChange, result: Uint8Array | null): void {
  if (result !== null && result.length > protocolLimits.payloadBytes) {
    change.status = "failed";
    change.error = failure("limit_exceeded", `the result has ${result.length} bytes of JSON, at most 262,144 are kept`);
  } else change.result = result;
}

function begin(change: StepChange, record: StepRecord & { status: "pending" }, now: number, protocol: string): void {
  if (record.type === "sleep") {
    const until = record.until ?? now + (record.forMs ?? 0);
    change.dueAt = until;
    if (until <= now) change.status = "completed";
  } else if (record.type === "wait") {
    if (!knows(protocol, 2)) {
      change.status = "failed";
      change.error = failure("protocol_unsupported", `waiting for a message needs protocol 1.2, this SDK speaks ${protocol}`);
    } else change.dueAt = now + record.timeoutMs;
  } else {
    const bytes = bytesOf(record.input)?.length ?? 0;
    if (bytes > protocolLimits.payloadBytes) {
      change.status = "failed";
      change.error = failure("limit_exceeded", `the input has ${bytes} bytes of JSON, at most 262,144 are taken`);
    }
  }
}
