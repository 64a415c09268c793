/**
 * What can be done with messages through the Gigadrive door: each with a result of its own, records with headers, receipts beside ids.
 * A send is a hot path here too: one check and one row per message in somebody's batch.
 */
import { createHash } from "node:crypto";
import { type Answer, type ErrorCode, Fault, type Operations } from "@millrace/contract";
import { backoffMs, gigadriveBackoff } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
import type { MessageState } from "../store/message.ts";
import { readMessageId } from "../store/message-id.ts";
import type { Store } from "../store/store.ts";
import type {
  ClaimedMessage,
  IdempotencyKey,
  MessageMeta,
  QueueRow,
  SendResult,
  SendRow,
  SettleResult,
  SettleRow,
} from "../store/types.ts";
import { type GigadriveRecord, leasedRecord, PREVIEW_BYTES, peekedRecord } from "./gigadrive-records.ts";
import { checkGigadriveMessage, type GivenGigadriveMessage, retryable } from "./gigadrive-rules.ts";
import { ezghBounds, type Messages } from "./messages.ts";
import { readReceipt } from "./receipt.ts";
import { dedupOf, foreignReceipt, receiptOutcome } from "./rules.ts";
import { isoTime } from "./settings.ts";

/** One result of a send. */
export type Sent = Extract<Answer<Operations["GigadriveSend"]>, { messageId: string | null }>;
type AckResults = Answer<Operations["GigadriveAckMessages"]>;
type Nacked = Answer<Operations["GigadriveNackMessage"]>;

export interface GigadriveMessages {
  /**
   * Sends what can be sent; one result per message, in order. A Fault among `given` is a message that was refused already. Rejects
   * only when nothing at all can be said of the messages (`overloaded`, `queue_not_found` …).
   */
  send(
    queue: QueueRow,
    given: readonly (GivenGigadriveMessage | Fault)[],
    traceparent: string | undefined,
    key: IdempotencyKey | null,
  ): Promise<Sent[]>;
  /** Throws the `invalid_request` that keeps a message from being sent. */
  check(queue: QueueRow, given: GivenGigadriveMessage): void;
  list(
    queue: QueueRow,
    page: { state: MessageState | null; offset: number; limit: number },
  ): Promise<{ items: GigadriveRecord[]; total: number }>;
  /** Throws `message_not_found`. */
  get(queue: QueueRow, id: string): Promise<GigadriveRecord>;
  /** Deletes a message in whatever state. Throws `message_not_found`. */
  delete(queue: QueueRow, id: string): Promise<void>;
  /** Claimed messages as records; `leaseMs` `null` is the queue's visibility timeout. */
  leased(queue: QueueRow, messages: readonly ClaimedMessage[], leaseMs: number | null): GigadriveRecord[];
  ack(queue: QueueRow, given: readonly { messageId: string; receipt: string }[]): Promise<AckResults>;
  /** Throws `receipt_mismatch`, `message_not_found`. */
  ackOne(queue: QueueRow, messageId: string, receipt: string): Promise<void>;
  nack(
    queue: QueueRow,
    messageId: string,
    given: {
      receipt: string;
      delaySeconds?: number | undefined;
      deadLetter?: boolean | undefined;
      countAttempt?: boolean | undefined;
      error?: string | undefined;
    },
  ): Promise<Nacked>;
  /** Answers the lease's new end, in milliseconds since 1970. */
  extend(queue: QueueRow, messageId: string, receipt: string, seconds: number): Promise<number>;
}

const gone = (): Fault => new Fault("message_not_found", "There is no such message in this queue.");
const refusedOf = ({ code, message }: Pick<Fault, "code" | "message">): Sent => ({
  messageId: null,
  error: message,
  code,
  retryable: retryable(code),
});

/** Whether a message was refused for want of room alone: that is its own result, and no fault of the request. */
const isFull = (code: ErrorCode): code is "backlog_full" | "quota_exceeded" => code === "backlog_full" || code === "quota_exceeded";

/** Makes the message verbs of the door. `maxMessageBytes` is the server's bound on a message (Q5). */
export function createGigadriveMessages(deps: {
  store: Store;
  clock: Clock;
  messages: Pick<Messages, "accepted">;
  maxMessageBytes?: number | undefined;
  random?: () => number;
}): GigadriveMessages {
  const { store, clock, messages } = deps;
  const maxBytes = deps.maxMessageBytes ?? ezghBounds.maxBytes;
  const random = deps.random ?? Math.random;
  const checked = (queue: QueueRow, given: GivenGigadriveMessage) => checkGigadriveMessage(given, queue, { maxBytes, now: clock.now() });

  const rowOf = (queue: QueueRow, given: GivenGigadriveMessage, traceparent: string | undefined): SendRow => {
    const { body, contentType, attributes, delayMs } = checked(queue, given);
    const dedup = dedupOf(queue.settings, given.deduplicationKey ?? undefined, () => createHash("sha256").update(body).digest("hex"));
    const meta: MessageMeta = { contentType };
    if (dedup.shown !== undefined) meta.dedupId = dedup.shown;
    if (given.deploymentId != null) meta.deploymentId = given.deploymentId;
    if (traceparent !== undefined) meta.traceparent = traceparent;
    return { queueNo: queue.no, body, attributes, meta, groupKey: given.groupKey ?? null, dedupId: dedup.key, delayMs };
  };
  const resultOf = (queue: QueueRow, result: SendResult): Sent => {
    try {
      const { messageId, deduplicated, deliverAt } = messages.accepted(queue, result);
      return { messageId, deduplicated, deliverAt: isoTime(deliverAt) };
    } catch (error) {
      if (error instanceof Fault && isFull(error.code)) return refusedOf(error);
      throw error;
    }
  };
  const stored = async (rows: SendRow[], key: IdempotencyKey | null): Promise<SendResult[]> => {
    if (key === null) return store.send(rows);
    try {
      return (await store.once(key, "sendEach", rows)).result;
    } catch (error) {
      if (!(error instanceof Fault) || !isFull(error.code)) throw error;
      const { code: refused } = error;
      return rows.map(() => ({ refused }));
    }
  };

  /** The lease that a receipt stands for, if it is one of the named message. */
  const leaseOf = async (queue: QueueRow, messageId: string, receipt: string): Promise<{ seq: number; receipt: number } | Fault> => {
    const lease = readReceipt(receipt);
    // The number of a message that never moved is in its id; only others are looked up.
    if (lease !== null && readMessageId(messageId)?.origin === lease.seq) return lease;
    const seq = await store.run("messageSeq", queue.no, messageId);
    if (seq === null) return gone();
    if (lease === null || lease.seq !== seq) return new Fault(foreignReceipt.code, foreignReceipt.message);
    return lease;
  };
  const settleOne = async (
    queue: QueueRow,
    messageId: string,
    receipt: string,
    given: Omit<SettleRow, "queueNo" | "seq" | "receipt">,
  ): Promise<SettleResult> => {
    const lease = await leaseOf(queue, messageId, receipt);
    if (lease instanceof Fault) throw lease;
    const [result] = await store.settle([{ queueNo: queue.no, ...lease, ...given }]);
    const outcome = receiptOutcome((result as SettleResult).result);
    if (!outcome.ok) throw new Fault(outcome.code, outcome.message);
    return result as SettleResult;
  };

  return {
    check: (queue, given) => void checked(queue, given),

    async send(queue, given, traceparent, key) {
      const rows: SendRow[] = [];
      const places = given.map((message): number | Sent => {
        if (message instanceof Fault) return refusedOf(message);
        try {
          return rows.push(rowOf(queue, message, traceparent)) - 1;
        } catch (error) {
          if (error instanceof Fault) return refusedOf(error);
          throw error;
        }
      });
      const results = rows.length === 0 ? [] : await stored(rows, key);
      return places.map((place) => (typeof place === "number" ? resultOf(queue, results[place] as SendResult) : place));
    },

    async list(queue, { state, offset, limit }) {
      const [stats, items] = await Promise.all([
        store.run("stats", queue.no),
        store.run("listMessages", queue.no, { state, offset, limit, bodyBytes: PREVIEW_BYTES }),
      ]);
      const { ready, scheduled, waiting, inflight, dead } = stats;
      return { items: items.map(peekedRecord), total: state === null ? ready + scheduled + waiting + inflight + dead : stats[state] };
    },

    async get(queue, id) {
      const message = await store.run("getMessage", queue.no, id);
      if (message === null) throw gone();
      return peekedRecord(message);
    },

    async delete(queue, id) {
      if (!(await store.run("deleteMessage", queue.no, id))) throw gone();
    },

    leased: (queue, claimed, leaseMs) => claimed.map((message) => leasedRecord(message, leaseMs ?? queue.settings.visibilityTimeoutMs)),

    async ack(queue, given) {
      const leases = await Promise.all(given.map(({ messageId, receipt }) => leaseOf(queue, messageId, receipt)));
      const rows: SettleRow[] = [];
      const places = leases.map((lease) =>
        lease instanceof Fault ? lease : rows.push({ queueNo: queue.no, ...lease, outcome: "ack" }) - 1,
      );
      const settled = rows.length === 0 ? [] : await store.settle(rows);
      return {
        results: given.map(({ messageId }, i) => {
          const place = places[i] as number | Fault;
          const outcome =
            place instanceof Fault ? { ok: false as const, code: place.code } : receiptOutcome((settled[place] as SettleResult).result);
          return outcome.ok ? { messageId, acknowledged: true } : { messageId, acknowledged: false, code: outcome.code };
        }),
      };
    },

    async ackOne(queue, messageId, receipt) {
      await settleOne(queue, messageId, receipt, { outcome: "ack" });
    },

    async nack(queue, messageId, given) {
      const { delaySeconds, deadLetter, countAttempt, error } = given;
      const reason = error === undefined || error === "" ? {} : { error };
      let how: Omit<SettleRow, "queueNo" | "seq" | "receipt">;
      if (deadLetter === true) how = { outcome: "dead", ...reason };
      else if (countAttempt === false) how = { outcome: "release", delayMs: (delaySeconds ?? 0) * 1000, ...reason };
      else {
        let delayMs = delaySeconds === undefined ? null : delaySeconds * 1000;
        if (delayMs === null) {
          const message = await store.run("getMessage", queue.no, messageId);
          delayMs = backoffMs(message?.attempts ?? 1, random(), gigadriveBackoff(queue.settings));
        }
        how = { outcome: "retry", delayMs, ...reason };
      }
      const { result, at } = await settleOne(queue, messageId, given.receipt, how);
      if (result === "dead") return { status: "dead" };
      if (result === "dropped" || result === "expired") return { status: "dropped" };
      return { status: "retrying", deliverAt: isoTime(at ?? clock.now()) };
    },

    async extend(queue, messageId, receipt, seconds) {
      const delayMs = seconds * 1000;
      const { at } = await settleOne(queue, messageId, receipt, { outcome: "extend", delayMs });
      return at ?? clock.now() + delayMs;
    },
  };
}
