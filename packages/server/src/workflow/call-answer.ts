/**
 * What workflows answer to a call of a queue, as a status and an outcome, and what that means for the message and for the subscription's
 * health: the table of W12 and W14. Pure but for waiting.
 */
import { Fault } from "@millrace/contract";
import { protocolLimits } from "@millrace/contract/wire";
import type { ResumeOutcome } from "../store/resume.ts";
import type { StartOutcome } from "../store/start.ts";

/** What came of a message that was to start or resume runs. */
export type CallOutcome = StartOutcome | ResumeOutcome | "no_attribute" | "invalid_key" | "input_too_large";

/** An answer as an endpoint would give it: the outcome's name is the body. */
export interface CallAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Uint8Array;
}

/** What an answer means: retried with the subscription's backoff unless `ok`; `slowDown` after `Retry-After`. */
export interface CallReading {
  ok: boolean;
  slowDown: boolean;
  /** `message`: nobody waits for this one, and others may fare better. */
  class: "message" | "workflow";
  error: string | null;
}

const refusals: Partial<Record<CallOutcome, [number, CallReading["class"], string]>> = {
  app_not_found: [404, "workflow", "the app was not found"],
  workflow_not_found: [404, "workflow", "the workflow was not found: its app has not announced it"],
  input_too_large: [413, "workflow", `the input was refused: a message that starts a run has at most ${protocolLimits.payloadBytes} bytes`],
  nobody: [409, "message", "No run to resume: none waits for this key"],
  no_attribute: [409, "message", "No run to resume: the message lacks the correlation attribute"],
  invalid_key: [409, "message", "No run to resume: the correlation attribute's value is not a key"],
};

/** Waits for an outcome and answers as an endpoint would: a store that can't take it now is a 503 with `Retry-After`. */
export async function answerOf(call: Promise<CallOutcome>): Promise<CallAnswer> {
  try {
    const outcome = await call;
    return { status: refusals[outcome]?.[0] ?? 200, headers: {}, body: new TextEncoder().encode(outcome) };
  } catch (error) {
    const seconds = error instanceof Fault ? (error.details?.retryAfterSeconds ?? 1) : 5;
    return { status: 503, headers: { "retry-after": String(seconds) }, body: new Uint8Array() };
  }
}

/** Whether the message was settled with the call. */
export const isDone = ({ status }: CallAnswer): boolean => status === 200;

/** Reads an answer. */
export function readCall(answer: CallAnswer): CallReading {
  if (isDone(answer)) return { ok: true, slowDown: false, class: "workflow", error: null };
  if (answer.status === 503) return { ok: false, slowDown: true, class: "workflow", error: "the server could not take the call just now" };
  const [, kind, error] = refusals[new TextDecoder().decode(answer.body) as CallOutcome] ?? [
    0,
    "workflow" as const,
    "the call was refused",
  ];
  return { ok: false, slowDown: false, class: kind, error };
}
