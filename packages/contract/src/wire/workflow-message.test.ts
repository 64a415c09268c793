import { expect, it } from "vitest";
import { workflowMessage } from "./workflow-message.ts";

const message = {
  messageId: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
  body: new TextEncoder().encode('{"orderId":1042}'),
  attributes: { source: "web" },
  sentAt: Date.UTC(2026, 9, 13, 18),
  groupKey: "acct-9",
  seq: 18_446,
};

it("W12: a run's input is the message, with group and number on FIFO queues only", () => {
  const plain = {
    messageId: message.messageId,
    body: '{"orderId":1042}',
    attributes: { source: "web" },
    sentAt: "2026-10-13T18:00:00.000Z",
    queueId: "q",
  };
  expect(JSON.parse(workflowMessage(message, { id: "q", fifo: false }))).toEqual(plain);
  expect(JSON.parse(workflowMessage(message, { id: "q", fifo: true }))).toEqual({ ...plain, groupId: "acct-9", seq: "18446" });
  expect(JSON.parse(workflowMessage({ ...message, attributes: null }, { id: "q", fifo: false })).attributes).toEqual({});
});

it("W12: a body that is no UTF-8 text comes as base64, a byte order mark stays in the text", () => {
  const binary = JSON.parse(workflowMessage({ ...message, body: Uint8Array.of(0xff, 0x00, 0x80) }, { id: "q", fifo: false }));
  expect([binary.bodyBase64, "body" in binary]).toEqual(["/wCA", false]);
  const marked = JSON.parse(workflowMessage({ ...message, body: Uint8Array.of(0xef, 0xbb, 0xbf, 0x61) }, { id: "q", fifo: false }));
  expect(marked.body).toBe("\ufeffa");
});
