/** Between the rows that callers know and the rows as stored: attributes and meta are JSON texts there, ids are made of numbers. */
import type { StoredClaim, StoredMessage } from "./claim.ts";
import { messageId } from "./message-id.ts";
import type { StoredResult, StoredSend } from "./send.ts";
import type { Claim, ClaimedMessage, MessageMeta, SendResult, SendRow } from "./types.ts";

const textOf = (value: object | null): string | null => {
  if (value === null) return null;
  const text = JSON.stringify(value);
  return text === "{}" ? null : text;
};
const fieldsOf = <Fields>(text: string | null): Fields | null => (text === null ? null : (JSON.parse(text) as Fields));

/** A message as it is stored. */
export function storedSend(row: SendRow): StoredSend {
  const meta = row.dedupId === null || row.meta?.dedupId !== undefined ? row.meta : { ...row.meta, dedupId: row.dedupId };
  return { ...row, attributes: textOf(row.attributes), meta: textOf(meta) };
}

/** What a sender is answered. */
export function sendResult(row: StoredResult): SendResult {
  if ("refused" in row) return row;
  return { seq: row.seq, messageId: messageId(row.sentAt, row.seq), deduplicated: row.deduplicated, deliverAt: row.deliverAt };
}

function claimed(m: StoredMessage): ClaimedMessage {
  return {
    seq: m.seq,
    receipt: m.receipt,
    messageId: messageId(m.sentAt, m.origin),
    body: m.body,
    attributes: fieldsOf<Record<string, string>>(m.attributes),
    meta: fieldsOf<MessageMeta>(m.meta),
    groupKey: m.groupKey,
    sentAt: m.sentAt,
    expiresAt: m.expiresAt,
    leaseUntil: m.leaseUntil,
    receives: m.receives,
    attempts: m.attempts,
  };
}

/** What a claimer is answered. */
export function claimResult({ batches, nextInMs }: StoredClaim): Claim {
  return { batches: batches.map((batch) => batch.map(claimed)), nextInMs };
}
