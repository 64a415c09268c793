import { describe, expect, it } from "vitest";
import { type EndedRun, RESULT_BYTES, runResult } from "./run-result.ts";

const run: EndedRun = {
  runId: "01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c",
  appId: "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8",
  workflow: "chargeCustomer",
  status: "failed",
  attempt: 1,
  output: null,
  error: { code: "user", name: "CardDeclinedError", message: "Card declined", stack: "at charge" },
  startedAt: Date.UTC(2026, 9, 13, 18),
  endedAt: Date.UTC(2026, 9, 13, 18, 1, 35),
  outputPath: "/v1/organizations/o/projects/p/apps/a/runs/r/output",
};
const bytes = (text: string): number => new TextEncoder().encode(text).length;

describe("the message about a run that ended", () => {
  it("W17: a failed run's message has the members of the source, with the error but not its stack", () => {
    expect(JSON.parse(runResult(run))).toEqual({
      type: "workflows.run.ended",
      runId: run.runId,
      appId: run.appId,
      workflow: "chargeCustomer",
      status: "failed",
      attempt: 1,
      error: { code: "user", name: "CardDeclinedError", message: "Card declined" },
      startedAt: "2026-10-13T18:00:00.000Z",
      endedAt: "2026-10-13T18:01:35.000Z",
    });
    expect(JSON.parse(runResult({ ...run, status: "cancelled", startedAt: null }))).not.toHaveProperty("error");
  });

  it("W17: an output's text is inlined as it is: no number of it is changed", () => {
    const output = '{"n":12345678901234567890,"b":1,"a":2.50}';
    expect(runResult({ ...run, status: "completed", output, error: null })).toContain(`"output":${output},`);
    expect(JSON.parse(runResult({ ...run, status: "completed", output: null, error: null })).output).toBeNull();
  });

  it("W17, WF-16: an output is inlined up to 262,144 bytes of the whole message, in multi-byte text too; beyond it is named", () => {
    const completed = (output: string) => runResult({ ...run, status: "completed", error: null, output });
    const wrapper = bytes(completed('""')) - 2;
    for (const total of [RESULT_BYTES - 1, RESULT_BYTES, RESULT_BYTES + 1]) {
      const room = total - wrapper - 2;
      const text = completed(JSON.stringify("é".repeat(Math.floor(room / 2)) + "x".repeat(room % 2)));
      const body = JSON.parse(text);
      expect(bytes(text)).toBeLessThanOrEqual(RESULT_BYTES);
      if (total <= RESULT_BYTES) {
        expect(bytes(text)).toBe(total);
        expect(body).not.toHaveProperty("outputRef");
      } else expect(body).toMatchObject({ outputRef: run.outputPath, status: "completed" });
    }
  });
});
