import { Fault } from "@millrace/contract";
import { expect, it } from "vitest";
import { answerOf, isDone, readCall } from "./call-answer.ts";

it("W12, W14: a start, a run that was there, a resume and a kept message are done with the call", async () => {
  for (const outcome of ["started", "existing", "resumed", "kept", "stale"] as const) {
    const answer = await answerOf(Promise.resolve(outcome));
    expect([isDone(answer), readCall(answer)]).toEqual([true, { ok: true, slowDown: false, class: "workflow", error: null }]);
  }
});

it("W12, WF-17: what is not found or refused is tried again with backoff, as the workflow's failure", async () => {
  for (const outcome of ["app_not_found", "workflow_not_found", "input_too_large"] as const) {
    const read = readCall(await answerOf(Promise.resolve(outcome)));
    expect(read).toMatchObject({ ok: false, slowDown: false, class: "workflow", error: expect.stringMatching(/not found|refused/) });
  }
});

it("W14: nobody waiting, no attribute and an invalid key are the message's failure: No run to resume", async () => {
  for (const outcome of ["nobody", "no_attribute", "invalid_key"] as const)
    expect(readCall(await answerOf(Promise.resolve(outcome)))).toMatchObject({
      ok: false,
      class: "message",
      error: expect.stringContaining("No run to resume"),
    });
});

it("W12, WF-17: a server that can't take the call is a 503 with Retry-After", async () => {
  const busy = await answerOf(Promise.reject(new Fault("overloaded", "busy", { retryAfterSeconds: 7 })));
  expect([busy.status, busy.headers["retry-after"], isDone(busy), readCall(busy).slowDown]).toEqual([503, "7", false, true]);
  expect(await answerOf(Promise.reject(new Error("the disk is on fire")))).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
});
