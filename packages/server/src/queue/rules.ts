/**
 * The decisions about queues and messages, free of effects: what a message must look like (Q3, Q5, Q9, Q11), which settings fit
 * together (Q2, Q13), and what an outcome means to the caller of a receipt (Q8). Sizes are UTF-8 bytes.
 */
import { type ErrorCode, Fault, invalid } from "@millrace/contract";
import type { QueueSettings, SettleResult } from "../store/types.ts";

/** What a sender gives of one message, as the contract's shape has it. */
export interface GivenMessage {
  body?: string | undefined;
  bodyBase64?: string | undefined;
  attributes?: Record<string, string> | undefined;
  delaySeconds?: number | undefined;
  groupId?: string | undefined;
  dedupId?: string | undefined;
}

/** What a message may measure. */
export interface MessageBounds {
  /** Body, attribute names and values together. */
  maxBytes: number;
  maxAttributes: number;
}

const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const VALUE_BYTES = 1024;
/** Padded, standard alphabet. That unused bits are zero is checked by writing the bytes again. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Unlike pooled buffers, what it writes owns its memory and can be handed to another thread. */
const utf8 = new TextEncoder();

function refuse(index: number, path: string, bound: string, got?: unknown): Fault {
  const fault = invalid(`messages.${index}.${path}`, bound, got);
  return new Fault(fault.code, fault.message, { ...fault.details, index });
}

function readBody(given: GivenMessage, index: number): Uint8Array {
  if (given.body !== undefined) {
    if (given.bodyBase64 !== undefined) throw refuse(index, "body", "body or bodyBase64, not both");
    if (LONE_SURROGATE.test(given.body)) throw refuse(index, "body", "well-formed Unicode, without lone surrogates");
    return utf8.encode(given.body);
  }
  const text = given.bodyBase64;
  if (text === undefined) throw refuse(index, "body", "body or bodyBase64 is required");
  const bytes = readBase64(text);
  if (bytes === null) throw refuse(index, "bodyBase64", "standard base64 with padding", text);
  return bytes;
}

/** The bytes of standard base64 with padding; `null` for every other text. */
export function readBase64(text: string): Uint8Array | null {
  const bytes = Buffer.from(text, "base64");
  if (text.length % 4 !== 0 || !BASE64.test(text) || bytes.toString("base64") !== text) return null;
  return new Uint8Array(bytes);
}

/** Whether a text holds no half of a character. */
export const wellFormed = (text: string): boolean => !LONE_SURROGATE.test(text);

function attributeBytes(attributes: Record<string, string>, index: number, bounds: MessageBounds): number {
  let bytes = 0;
  const names = Object.keys(attributes);
  if (names.length > bounds.maxAttributes) throw refuse(index, "attributes", `at most ${bounds.maxAttributes}`, names.length);
  for (const name of names) {
    if (!NAME.test(name)) throw refuse(index, "attributes", "names of 1 to 64 of letters, digits, _ . -", name);
    const value = attributes[name] as string;
    if (LONE_SURROGATE.test(value)) throw refuse(index, `attributes.${name}`, "well-formed Unicode, without lone surrogates");
    const length = Buffer.byteLength(value);
    if (length > VALUE_BYTES) throw refuse(index, `attributes.${name}`, `at most ${VALUE_BYTES} bytes`, `${length} bytes`);
    bytes += name.length + length;
  }
  return bytes;
}

/** What of a message is stored as it came; the rest of the row is the queue's. */
export interface CheckedMessage {
  body: Uint8Array;
  attributes: Record<string, string> | null;
}

/** Checks one message of a send. Throws a `Fault` that names the message's index, the field, the bound and what came. */
export function checkMessage(given: GivenMessage, index: number, type: "standard" | "fifo", bounds: MessageBounds): CheckedMessage {
  const body = readBody(given, index);
  let bytes = body.length;
  let attributes: Record<string, string> | null = null;
  if (given.attributes !== undefined) {
    bytes += attributeBytes(given.attributes, index, bounds);
    if (Object.keys(given.attributes).length > 0) attributes = given.attributes;
  }
  if (bytes > bounds.maxBytes)
    throw refuse(index, "body", `body, attribute names and values of at most ${bounds.maxBytes} bytes together`, `${bytes} bytes`);
  if (type === "fifo" && given.groupId === undefined) throw refuse(index, "groupId", "required on a FIFO queue");
  return { body, attributes };
}

/**
 * The id under which a send is remembered (Q11): the sender's, else the body's hash where the queue asks for it; `null` when nothing
 * is remembered. `shown` is what the message carries for its readers, also while the window is off.
 */
export function dedupOf(
  settings: Pick<QueueSettings, "deduplicationWindowMs" | "contentBasedDeduplication">,
  given: string | undefined,
  hash: () => string,
): { key: string | null; shown: string | undefined } {
  const shown = given ?? (settings.contentBasedDeduplication ? hash() : undefined);
  return { key: settings.deduplicationWindowMs > 0 && shown !== undefined ? shown : null, shown };
}

/** Whether one receipt's outcome was what its holder asked for, and if not, why (Q8). */
export function receiptOutcome(result: SettleResult["result"]): { ok: true } | { ok: false; code: ErrorCode; message: string } {
  if (result === "stale")
    return { ok: false, code: "receipt_mismatch", message: "The receipt is not that of the message's current lease." };
  if (result === "gone") return { ok: false, code: "message_not_found", message: "There is no such message in this queue." };
  return { ok: true };
}

/** What a text that is no receipt of ours answers. */
export const foreignReceipt = { ok: false, code: "receipt_mismatch", message: "Not a receipt of this queue." } as const;
