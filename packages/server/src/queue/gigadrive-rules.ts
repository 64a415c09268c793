/**
 * The decisions about a message that comes through the Gigadrive door, free of effects: what its body and headers must look like, so
 * that no message is stored that can't be delivered (C2, Q5), and what its record shows of it.
 */
import { type ErrorCode, invalid } from "@millrace/contract";
import { headerName, headerValue, reservedHeader } from "@millrace/contract/wire";
import type { QueueRow } from "../store/types.ts";
import { readBase64, wellFormed } from "./rules.ts";

/** What a sender gives of one message, as the contract's shape has it. */
export interface GivenGigadriveMessage {
  json?: unknown;
  body?: string | undefined;
  encoding?: "utf8" | "base64" | undefined;
  contentType?: string | null | undefined;
  headers?: Record<string, string> | null | undefined;
  delaySeconds?: number | null | undefined;
  deliverAt?: string | null | undefined;
  groupKey?: string | null | undefined;
  deduplicationKey?: string | null | undefined;
  deploymentId?: string | null | undefined;
}

/** What of it is stored as it came. */
export interface CheckedGigadriveMessage {
  body: Uint8Array;
  contentType: string;
  attributes: Record<string, string> | null;
  delayMs: number | null;
}

const MOST_HEADERS = 50;
/** Names and values together: with the platform's own headers they stay below what servers take (8 to 16 KiB in all). */
const HEADER_BYTES = 8_192;
const LONGEST_DELAY_MS = 31_536_000_000;
const utf8 = new TextEncoder();

function bodyOf(given: GivenGigadriveMessage): { body: Uint8Array; contentType: string } {
  if (given.json !== undefined) {
    if (given.body !== undefined) throw invalid("json", "json or body, not both");
    const text = JSON.stringify(given.json);
    if (!wellFormed(text)) throw invalid("json", "well-formed Unicode, without lone surrogates");
    return { body: utf8.encode(text), contentType: "application/json" };
  }
  if (given.body === undefined) throw invalid("body", "json or body is required");
  if (given.encoding === "base64") {
    const body = readBase64(given.body);
    if (body === null) throw invalid("body", "standard base64 with padding", given.body);
    return { body, contentType: "application/octet-stream" };
  }
  if (!wellFormed(given.body)) throw invalid("body", "well-formed Unicode, without lone surrogates");
  return { body: utf8.encode(given.body), contentType: "text/plain; charset=utf-8" };
}

/** Headers in lower case, as they will travel; a content type among them is taken for the message's. */
function headersOf(given: Record<string, string>): { attributes: Record<string, string> | null; contentType: string | undefined } {
  const names = Object.keys(given);
  if (names.length > MOST_HEADERS) throw invalid("headers", `at most ${MOST_HEADERS}`, names.length);
  const attributes: Record<string, string> = Object.create(null);
  let contentType: string | undefined;
  let bytes = 0;
  for (const name of names) {
    const value = given[name] as string;
    const key = name.toLowerCase();
    if (!headerName.test(name)) throw invalid("headers", "names of 1 to 128 characters that a header's name may have", name);
    if (reservedHeader(key)) throw invalid(`headers.${name}`, "not a header that belongs to the connection or to the platform");
    if (!headerValue.test(value)) throw invalid(`headers.${name}`, "printable ASCII without spaces at its ends");
    if (key in attributes || (key === "content-type" && contentType !== undefined))
      throw invalid(`headers.${name}`, "given once, whatever its case");
    bytes += name.length + value.length;
    if (key === "content-type") contentType = value;
    else attributes[key] = value;
  }
  if (bytes > HEADER_BYTES) throw invalid("headers", `names and values of at most ${HEADER_BYTES} bytes together`, `${bytes} bytes`);
  return { attributes: Object.keys(attributes).length === 0 ? null : attributes, contentType };
}

function delayOf({ delaySeconds, deliverAt }: GivenGigadriveMessage, now: number): number | null {
  if (deliverAt == null) return delaySeconds == null ? null : delaySeconds * 1000;
  if (delaySeconds != null) throw invalid("deliverAt", "delaySeconds or deliverAt, not both");
  const delayMs = Math.max(0, Date.parse(deliverAt) - now);
  if (delayMs > LONGEST_DELAY_MS) throw invalid("deliverAt", "at most 365 days ahead", deliverAt);
  return delayMs;
}

/** Checks one message. Throws `invalid_request` naming the field, the bound and what came. `now` in milliseconds since 1970. */
export function checkGigadriveMessage(
  given: GivenGigadriveMessage,
  queue: Pick<QueueRow, "type">,
  { maxBytes, now }: { maxBytes: number; now: number },
): CheckedGigadriveMessage {
  const { body, contentType } = bodyOf(given);
  const headers = headersOf(given.headers ?? {});
  let bytes = body.length;
  for (const [name, value] of Object.entries(headers.attributes ?? {})) bytes += name.length + value.length;
  if (bytes > maxBytes) throw invalid("body", `body and headers of at most ${maxBytes} bytes together`, `${bytes} bytes`);
  if (queue.type === "fifo" && given.groupKey == null) throw invalid("groupKey", "required on a FIFO queue");
  const delayMs = delayOf(given, now);
  return { body, contentType: given.contentType ?? headers.contentType ?? contentType, attributes: headers.attributes, delayMs };
}

/** Whether the same message may be taken later. */
export function retryable(code: ErrorCode): boolean {
  return code === "backlog_full" || code === "overloaded" || code === "unavailable";
}
