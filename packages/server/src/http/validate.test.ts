import { Fault, operations, workflowProtocol } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import type { z } from "zod";
import { validate } from "./validate.ts";

/** What is said of an input. */
function complaint(shape: z.ZodType, input: unknown): string {
  try {
    validate(shape, input, "body");
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
  return "nothing";
}

const target = (given: object) => complaint(operations.CreateSubscription.body, { queueId: "orders", target: given });
const step = (given: object) => complaint(workflowProtocol.stepRecord, { id: "place", ...given });

describe("what is said of a choice", () => {
  it("A2: what there is to choose from, and of the chosen one what is wrong with it", () => {
    expect(target({ kind: "workflow", mode: "begin" })).toBe("target.mode: must be one of start, resume, got begin");
    expect(target({ kind: "workflow", appId: "a", workflow: "w" })).toBe("target.mode: is required");
    expect(target({ kind: "workflow", mode: "start", appId: "a" })).toBe("target.workflow: is required");
  });

  it("A2, W6: an executor's step is told by its type and status", () => {
    expect(step({ type: "nap", status: "pending" })).toBe("type: must be one of run, send, value, sleep, wait, child, got nap");
    expect(step({ type: "run", status: "pending" })).toBe("status: must be one of completed, failed, retrying, got pending");
    expect(step({ type: "run", status: "retrying", attempt: 1, error: { name: "E", message: "m" }, delayMs: -1 })).toBe(
      "delayMs: must be at least 0, got -1",
    );
  });

  it("W3, W12: no caller takes an id of those that follow from messages and steps", () => {
    const runId = (version: number) => `01999f50-1a2b-${version}c3d-8e4f-5a6b7c8d9e0f`;
    const started = (id: string) => complaint(operations.StartRun.body, { workflow: "order", runId: id });
    expect([4, 5, 7].map((version) => started(runId(version)))).toEqual(["nothing", "nothing", "nothing"]);
    expect(started(runId(8))).toContain("not of version 8");
    expect(step({ type: "child", status: "pending", workflow: "order", wait: true, runId: runId(8) })).toContain("not of version 8");
  });

  it("W3: no text that a database can't hold is looked for", () => {
    expect(complaint(operations.ListRuns.query, { text: "a\0b" })).toContain("text: must be without U+0000");
    expect(complaint(operations.CancelRuns.body, { filter: { text: "a\0b" } })).toContain("filter.text: must be without U+0000");
  });
});
