import { describe, expect, it } from "vitest";
import type { DeliveryResult } from "../delivery/types.ts";
import { readPushAnswer } from "./push-answer.ts";

const answer = (body: unknown, more: Partial<Extract<DeliveryResult, { kind: "answer" }>> = {}): DeliveryResult => ({
  kind: "answer",
  status: 200,
  headers: {},
  body: new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)),
  truncated: false,
  durationMs: 1,
  ...more,
});

describe("the response of a push executor", () => {
  it.each([
    { status: "completed", output: "1" },
    { status: "completed" },
    { status: "failed", error: { name: "E", message: "m" } },
    { status: "cancelled" },
    { status: "suspended", steps: [{ type: "sleep", id: "s", status: "pending", forMs: 1 }] },
    { status: "suspended", again: true },
    { status: "blocked", reason: { code: "nondeterminism", message: "m" } },
  ])("W6: $status is an end, with whatever else a newer executor says", (given) => {
    const read = readPushAnswer(answer({ protocol: "1.7", buildId: "b", somethingNew: [1], ...given }), 0);
    expect(read).toMatchObject({ ok: true, error: null, answer: given, protocol: "1.7", buildId: "b" });
  });

  it("W6: an execution that was ended by a call leaves nothing to store", () => {
    expect(readPushAnswer(answer({ status: "ended", protocol: "1.2" }), 0)).toMatchObject({ ok: true, answer: null });
  });

  it("W6: an answer in an unknown major version is not believed: the run waits for a build that is understood", () => {
    const read = readPushAnswer(answer({ status: "completed", output: "1", protocol: "2.0", buildId: "b" }), 0);
    expect(read).toMatchObject({ ok: true, buildId: "b", answer: { status: "blocked", reason: { code: "protocol_unsupported" } } });
    expect(readPushAnswer(answer({ status: "completed" }), 0)).toMatchObject({ protocol: "1.0", answer: { status: "completed" } });
  });

  it("W6: what is wrong with an answer is said", () => {
    const wait = { type: "wait", id: "w", status: "pending", queueId: "q", key: "a b", timeoutMs: 5_000 };
    const read = readPushAnswer(answer({ protocol: "1.2", status: "suspended", steps: [wait] }), 0);
    expect(read.error).toBe("the answer is not one of the workflow protocol: steps.0.key 1 to 256 of letters, digits, _ . : -");
  });

  it.each([
    ["text", "hello"],
    ["an array", "[]"],
    ["another status", { status: "done" }],
    ["an output that is not JSON text", { status: "completed", output: "{" }],
    ["a sleep of two ends", { status: "suspended", steps: [{ type: "sleep", id: "s", status: "pending", forMs: 1, until: 2 }] }],
    [
      "a key that is none",
      { status: "suspended", steps: [{ type: "wait", id: "w", status: "pending", queueId: "q", key: "a b", timeoutMs: 5_000 }] },
    ],
  ])("W9: %s is a lost execution", (_what, body) => {
    expect(readPushAnswer(answer(body), 0)).toMatchObject({ ok: false, slowDown: false, answer: null });
  });

  it("W9, P13: refusals and failures are lost executions; 429, 503 and a timeout ask for less, with Retry-After for as long as it says", () => {
    expect(readPushAnswer(answer("no\nroom", { status: 500 }), 0)).toMatchObject({
      ok: false,
      slowDown: false,
      error: "HTTP 500: no room",
    });
    const busy = readPushAnswer(answer("", { status: 503, headers: { "retry-after": "7" } }), 0);
    expect(busy).toMatchObject({ ok: false, slowDown: true, retryAfterMs: 7_000, error: "HTTP 503" });
    const late: DeliveryResult = { kind: "failure", class: "timeout", message: "no answer in time", durationMs: 1 };
    expect(readPushAnswer(late, 0)).toMatchObject({ ok: false, slowDown: true, error: "timeout: no answer in time" });
    expect(readPushAnswer(answer({ status: "completed" }, { truncated: true }), 0)).toMatchObject({ ok: false });
  });
});
