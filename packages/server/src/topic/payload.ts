/** What is published (T3), read and bounded, and which part of it a protocol gets. Pure. */
import { type Answer, type Input, invalid, type Operations } from "@millrace/contract";
import type { Publication } from "../store/notification.ts";

/** A publication as the door's shape has it. */
export type GivenPublication = Input<Operations["Publish"]>["body"];
/** What a publication was answered. */
export type WireAccepted = Answer<Operations["Publish"]>["notification"];

/** The most bytes of message, subject and attributes together. */
export const MOST_BYTES = 262_144;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads a publication for a topic. Throws `invalid_request` that names the field; `path` stands before it. */
export function readPublication(
  topic: { no: number; fifo: boolean },
  given: GivenPublication,
  traceparent: string | undefined,
  path = "",
): Publication {
  const { message, message_structure: structure, message_group_id: groupId, message_deduplication_id: dedupId } = given;
  if (typeof message === "object" && structure !== "json")
    throw invalid(`${path}message`, "must be text unless message_structure is json", message);
  if (typeof message === "string" && structure === "json")
    throw invalid(`${path}message`, "must be an object with a default where message_structure is json", message);
  if (topic.fifo && groupId === undefined) throw invalid(`${path}message_group_id`, "is required on a FIFO topic");
  if (!topic.fifo && groupId !== undefined) throw invalid(`${path}message_group_id`, "only on a FIFO topic", groupId);
  if (!topic.fifo && dedupId !== undefined) throw invalid(`${path}message_deduplication_id`, "only on a FIFO topic", dedupId);
  const payloads = typeof message === "string" ? { message } : { default: message.default, webhook: message.webhook, queue: message.queue };
  const attributes = given.attributes === undefined || Object.keys(given.attributes).length === 0 ? null : given.attributes;
  const bytes = encoder.encode(typeof message === "string" ? message : JSON.stringify(payloads));
  const beside = [given.subject ?? "", attributes === null ? "" : JSON.stringify(attributes)];
  const size = bytes.length + beside.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size > MOST_BYTES) throw invalid(`${path}message`, `must be at most ${MOST_BYTES} bytes with subject and attributes`, size);
  return {
    topicNo: topic.no,
    message: bytes,
    structure: structure ?? null,
    subject: given.subject ?? null,
    attributes,
    groupId: groupId ?? null,
    dedupId: dedupId ?? null,
    traceparent: traceparent ?? null,
  };
}

/** The payload that a protocol gets: its own, or the default one. */
export function payloadFor(
  { message, structure }: { message: Uint8Array; structure: "json" | null },
  protocol: "webhook" | "queue",
): string {
  const text = decoder.decode(message);
  if (structure === null) return text;
  const payloads = JSON.parse(text) as { default: string; webhook?: string; queue?: string };
  return payloads[protocol] ?? payloads.default;
}
