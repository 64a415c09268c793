/**
 * The decisions of apps and runs, free of effects: bounds of payloads, what an app's mode asks for, and what an answer to a start or
 * resume means for its message (W12, W14).
 */
import { Fault, invalid } from "@millrace/contract";
import { type Outcome, protocolLimits, type RunError } from "@millrace/contract/wire";
import type { ResumeOutcome } from "../store/resume.ts";
import type { StartOutcome } from "../store/start.ts";

/** How many runs may be executed at once unless an app says otherwise (W1). */
export const MAX_CONCURRENCY = 100;

/** The JSON bytes of a payload that came through the API; `null` for none. Throws `payload_too_large` beyond 256 KiB (W3). */
export function payloadBytes(path: string, value: unknown): Uint8Array | null {
  if (value === undefined) return null;
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (bytes.length <= protocolLimits.payloadBytes) return bytes;
  const bound = `at most ${protocolLimits.payloadBytes} bytes of JSON text`;
  throw new Fault("payload_too_large", `${path}: ${bound}, got ${bytes.length}`, { path, bound, got: String(bytes.length) });
}

/** The JSON value of stored bytes. */
export const payloadOf = (bytes: Uint8Array | null): unknown => (bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes)));

/** A push app has a URL, a pull app has none. Throws `invalid_request`. */
export function checkMode(mode: "push" | "pull", url: string | undefined): void {
  if (mode === "push" && url === undefined) throw invalid("url", "is required of a push app");
  if (mode === "pull" && url !== undefined) throw invalid("url", "only a push app has one", url);
}

/** What came of a message that was to start or resume runs. */
export type CallOutcome = StartOutcome | ResumeOutcome | "no_attribute" | "invalid_key" | "input_too_large";

/** What an outcome means for the message: `done` ones are settled already. `class` and `error` are for the subscription's status. */
export interface CallReading {
  done: boolean;
  outcome: Outcome;
  class: "message" | "workflow";
  error: string | null;
}

const reasons: Partial<Record<CallOutcome, [CallReading["class"], string]>> = {
  app_not_found: ["workflow", "the app was not found"],
  workflow_not_found: ["workflow", "the workflow was not found: the app has not announced it"],
  input_too_large: ["workflow", `the input was refused: a message of at most ${protocolLimits.payloadBytes} bytes can start a run`],
  nobody: ["message", "No run to resume: none waits for this key"],
  no_attribute: ["message", "No run to resume: the message lacks the correlation attribute"],
  invalid_key: ["message", "No run to resume: the correlation attribute's value is not a key"],
};

/** Reads an outcome: what is not done is retried with the subscription's backoff, and dead-lettered by the queue's policy. */
export function readCall(outcome: CallOutcome): CallReading {
  const refused = reasons[outcome];
  if (refused === undefined) return { done: true, outcome: { kind: "ack" }, class: "workflow", error: null };
  return { done: false, outcome: { kind: "retry", delayMs: null }, class: refused[0], error: refused[1] };
}

/** An error as it is stored and shown, of what a program said. */
export const shownError = ({ code, name, message, stack }: RunError): RunError => ({ code: code ?? "user", name, message, stack });
