/**
 * Writes spec/workflow-protocol.json: what an executor in any language can hold itself to. Signed requests as they go over the wire, and
 * for each thing that is sent to the server examples that are taken and examples that are refused.
 */
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { buildWorkflowCall, type Hmac, parseSecret, protocolVersion, type SyncRequest, type Task } from "@millrace/contract/wire";

const secret = "whsec_fGBsph2KtHeXnrHHoOdCa32GYZR4EkkL5Z5aKxQfZXg";
const appId = "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8";
const wallMs = 1_791_309_600_000;
const hmac: Hmac = (key, ...parts) => {
  const digest = createHmac("sha256", key);
  for (const part of parts) digest.update(part);
  return new Uint8Array(digest.digest());
};

const sync: SyncRequest = { type: "sync", protocol: protocolVersion, appId };
const task: Task = {
  type: "execute",
  protocol: protocolVersion,
  executionId: "01999f60-5e6f-7081-92a3-b4c5d6e7f809",
  token: "7-3-2s-1a2b3c4d5e-0-0.c2lnbmF0dXJl",
  callbackUrl: "https://millrace.example.com/v1/workflow-executions",
  now: wallMs,
  leaseMs: 300_000,
  run: { id: "01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c", appId, workflow: "order", attempt: 1, createdAt: wallMs - 5_000 },
  input: '{"orderId":1042,"note":"größer als 9007199254740993 ☃"}',
  cancelled: false,
  journal: {
    steps: [
      { id: "place", type: "run", status: "completed", attempt: 1, order: 1, result: '{"id":7}' },
      { id: "nap", type: "sleep", status: "pending", until: wallMs + 3_600_000 },
    ],
    next: null,
  },
};

const call = (name: string, body: Task | SyncRequest, id: string) => {
  const key = parseSecret(secret);
  if (key === undefined) throw new Error("the secret of the vectors is none");
  const request = buildWorkflowCall(body, id, { hmac, keys: [key], wallMs, version: "0.0.0" });
  return { name, secret, headers: request.headers, body: new TextDecoder().decode(request.body) };
};

const error = { name: "CardDeclinedError", message: "Card declined" };
const vectors = {
  protocol: protocolVersion,
  requests: [call("sync", sync, "01999f60-0000-7000-8000-000000000001"), call("execute", task, "01999f60-0000-7000-8000-000000000002")],
  announcements: {
    taken: [
      {
        protocol: "1.2",
        buildId: "9f2c41d",
        sdk: "millrace-go/0.1.0",
        workflows: [{ name: "order", timeoutMs: 86_400_000, concurrency: 10 }],
      },
      { protocol: "1.0", buildId: "1", workflows: [] },
      { protocol: "1.3", buildId: "b", workflows: [{ name: "a.b_c-1", timeoutMs: null, later: true }], later: 1 },
    ],
    refused: [
      { buildId: "1", workflows: [] },
      { protocol: "1", buildId: "1", workflows: [] },
      { protocol: "1.2", buildId: "", workflows: [] },
      { protocol: "1.2", buildId: "1", workflows: [{ name: "with space" }] },
      { protocol: "1.2", buildId: "1", workflows: [{ name: "a", concurrency: 0 }] },
    ],
  },
  steps: {
    taken: [
      { id: "place", type: "run", status: "completed", attempt: 1, startedAt: wallMs, result: '{"id":7}' },
      { id: "place#2", type: "run", status: "completed", attempt: 3 },
      { id: "place", type: "run", status: "failed", attempt: 3, error: { ...error, code: "user", stack: "at shop.ts:1" } },
      { id: "place", type: "send", status: "retrying", attempt: 1, error, delayMs: 1_000 },
      { id: "now", type: "value", status: "completed", result: String(wallMs) },
      { id: "nap", type: "sleep", status: "pending", forMs: 0 },
      { id: "nap", type: "sleep", status: "pending", until: wallMs },
      { id: "paid", type: "wait", status: "pending", queueId: appId, key: "order:1042", timeoutMs: 86_400_000, lookbackMs: 60_000 },
      { id: "report", type: "child", status: "pending", workflow: "report", input: "[1,2]", wait: true },
      {
        id: "report",
        type: "child",
        status: "pending",
        workflow: "report",
        wait: false,
        appId,
        runId: "01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5d",
      },
    ],
    refused: [
      { type: "run", status: "completed", attempt: 1 },
      { id: "", type: "run", status: "completed", attempt: 1 },
      { id: "x", type: "run", status: "completed" },
      { id: "x", type: "run", status: "completed", attempt: 1, result: "{" },
      { id: "x", type: "run", status: "completed", attempt: 1, result: { json: "as a value" } },
      { id: "x", type: "run", status: "failed", attempt: 1 },
      { id: "x", type: "run", status: "retrying", attempt: 1, error, delayMs: -1 },
      { id: "x", type: "value", status: "failed", error },
      { id: "x", type: "sleep", status: "pending" },
      { id: "x", type: "sleep", status: "pending", forMs: 1, until: 2 },
      { id: "x", type: "wait", status: "pending", queueId: appId, key: "order 1042", timeoutMs: 1_000 },
      { id: "x", type: "wait", status: "pending", queueId: appId, key: "order:1042", timeoutMs: 999 },
      { id: "x", type: "child", status: "pending", workflow: "report" },
      { id: "x", type: "timer", status: "pending", forMs: 1 },
    ],
  },
  answers: {
    taken: [
      { status: "completed", output: '{"shipped":true}' },
      { status: "completed" },
      { status: "failed", error },
      { status: "cancelled" },
      { status: "suspended", steps: [{ id: "nap", type: "sleep", status: "pending", forMs: 1_000 }] },
      { status: "suspended", again: true },
      { status: "blocked", reason: { code: "nondeterminism", message: 'step "place" is recorded as run, and the code came with sleep' } },
    ],
    refused: [
      {},
      { status: "done" },
      { status: "completed", output: 1 },
      { status: "failed" },
      { status: "blocked" },
      { status: "blocked", reason: { code: "tired", message: "" } },
    ],
  },
};

writeFileSync(new URL("../spec/workflow-protocol.json", import.meta.url), `${JSON.stringify(vectors, null, 2)}\n`);
