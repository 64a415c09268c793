/** What the response of a push executor means (docs/protocol.md): pure. Anything that is not an answer is a lost execution. */
import { workflowProtocol } from "@millrace/contract";
import { cut, type ExecutionAnswer, maxErrorLength, protocolVersion, retryAfterMs, speaks, withoutSecrets } from "@millrace/contract/wire";
import type { Verdict } from "../delivery/endpoint-lane.ts";
import type { DeliveryResult } from "../delivery/types.ts";

/** The longest pause that an executor may ask for. */
const LONGEST_PAUSE_MS = 15 * 60_000;

/** A response, read. `answer` `null` while `ok`: the executor ended the execution by a call of its own. */
export interface PushAnswer extends Verdict {
  answer: ExecutionAnswer | null;
  protocol: string;
  buildId: string | null;
  /** What a 429 or 503 asked for. */
  retryAfterMs: number | null;
}

const decoder = new TextDecoder("utf-8", { fatal: true });
const LOST: PushAnswer = { ok: false, slowDown: false, error: "", answer: null, protocol: "", buildId: null, retryAfterMs: null };

/** What a schema finds wrong first: where, and what. */
export function firstIssue({ issues: [first] }: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  return first === undefined ? "" : `${first.path.join(".")} ${first.message}`;
}

/** The JSON object of a body; `null` when it is not one. */
export function objectOf(body: Uint8Array): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(decoder.decode(body));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The status and the beginning of an answer in one line. */
export function httpError(status: number, body: Uint8Array): string {
  const text = new TextDecoder()
    .decode(body.subarray(0, 1024))
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  return cut(text === "" ? `HTTP ${status}` : `HTTP ${status}: ${withoutSecrets(text)}`, maxErrorLength);
}

/** Reads a response. `nowMs` is real time, for HTTP dates. */
export function readPushAnswer(result: DeliveryResult, nowMs: number): PushAnswer {
  if (result.kind === "failure")
    return { ...LOST, slowDown: result.class === "timeout", error: cut(`${result.class}: ${result.message}`, maxErrorLength) };
  const { status, body, headers, truncated } = result;
  if (status < 200 || status > 299) {
    const slowDown = status === 429 || status === 503;
    return {
      ...LOST,
      slowDown,
      error: httpError(status, body),
      retryAfterMs: slowDown ? retryAfterMs(headers["retry-after"], nowMs, LONGEST_PAUSE_MS) : null,
    };
  }
  const value = truncated ? null : objectOf(body);
  if (value === null)
    return { ...LOST, error: truncated ? "the answer is over 1 MiB: it belongs to /end" : "the answer is not a JSON object" };
  const protocol = typeof value.protocol === "string" ? value.protocol.slice(0, 20) : "1.0";
  const buildId = typeof value.buildId === "string" && value.buildId.length <= 200 ? value.buildId : null;
  const read = { ...LOST, ok: true, error: null, protocol, buildId };
  if (value.status === "ended") return read;
  if (!speaks(protocol)) {
    const message = `the app answered in protocol ${protocol}, this server speaks ${protocolVersion}`;
    return { ...read, protocol: protocolVersion, answer: { status: "blocked", reason: { code: "protocol_unsupported", message } } };
  }
  const parsed = workflowProtocol.executionAnswer.safeParse(value);
  if (parsed.success) return { ...read, answer: parsed.data };
  return { ...LOST, error: cut(`the answer is not one of the workflow protocol: ${firstIssue(parsed.error)}`, maxErrorLength) };
}
