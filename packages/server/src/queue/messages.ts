/**
 * What can be done with messages: send, receive, acknowledge, move leases, look. Checks come before the store, answers have the
 * wire's shape. A send is the product's hottest path: one look-up, one check, one row in somebody's batch.
 */
import { createHash } from "node:crypto";
import { type Answer, Fault, type Input, type Operations } from "@millrace/contract";
import type { Clock } from "../clock.ts";
import type { MessageState } from "../store/message.ts";
import { quotaExceeded } from "../store/quota-rules.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage, IdempotencyKey, MessageMeta, QueueRow, SendResult, SendRow, SettleRow } from "../store/types.ts";
import type { Directory } from "./directory.ts";
import { type PeekPage, peekPage } from "./peek.ts";
import { readReceipt, writeReceipt } from "./receipt.ts";
import { checkMessage, dedupOf, foreignReceipt, type GivenMessage, type MessageBounds, receiptOutcome } from "./rules.ts";
import { isoTime } from "./settings.ts";
import { createWaiting } from "./waiting.ts";
import { wireBody } from "./wire.ts";

type Sent = Answer<Operations["SendMessages"]>;
type Received = Answer<Operations["ReceiveMessages"]>;
type ReceiptResults = Answer<Operations["AckMessages"]>;
type Given<Name extends keyof Operations> = NonNullable<Input<Operations[Name]>["body"]>;

export interface Messages {
  /** Sends all or nothing; answered once durable. `key` makes it happen once (Q12). Throws `invalid_request`, `backlog_full` … */
  send(queue: QueueRow, given: readonly GivenMessage[], traceparent: string | undefined, key: IdempotencyKey | null): Promise<Sent>;
  /** What a stored row answers; throws the Fault of one that was refused. */
  accepted(queue: QueueRow, result: SendResult): Exclude<SendResult, { refused: unknown }>;
  /** Leases messages, waiting for the first (Q17). `gone` is asked for only when it starts to wait. */
  receive(queue: QueueRow, given: Given<"ReceiveMessages">, gone: () => AbortSignal): Promise<ClaimedMessage[]>;
  /** Gives leases back whose answer never reached its client; the attempts are refunded. Never rejects. */
  release(queueNo: number, messages: readonly ClaimedMessage[]): Promise<void>;
  ack(queue: QueueRow, receipts: readonly string[]): Promise<ReceiptResults>;
  /** Moves the ends of leases; 0 seconds gives a message back at once, its attempt spent. */
  changeVisibility(queue: QueueRow, given: Given<"ChangeVisibility">["receipts"]): Promise<ReceiptResults>;
  /** A page of messages as they stand (Q4), without leasing any. */
  peek(queue: QueueRow, state: MessageState | null, after: number | null, limit: number): Promise<PeekPage>;
  /** Removes all messages or only the dead ones; answers how many (Q15). */
  purge(queue: QueueRow, scope: "all" | "dead"): Promise<number>;
  /** Ends all waits: the process is stopping. */
  close(): void;
}

/** Bounds of a message through the EZGH door (Q5). */
export const ezghBounds: MessageBounds = { maxBytes: 262_144, maxAttributes: 10 };

/** How long a sender should wait before it tries a full queue again. */
const FULL_RETRY_SECONDS = 1;

/** Rows that one step of a purge removes: one transaction. */
const PURGE_ROWS = 1000;

/** Claimed messages in the shape of the receive's answer. */
export function wireReceived(queue: QueueRow, messages: readonly ClaimedMessage[]): Received {
  return {
    messages: messages.map((message) => ({
      messageId: message.messageId,
      ...wireBody(message.body),
      attributes: message.attributes ?? {},
      sentAt: isoTime(message.sentAt),
      receiveCount: message.receives,
      groupId: message.groupKey ?? undefined,
      seq: queue.type === "fifo" ? String(message.seq) : undefined,
      receipt: writeReceipt(message),
      leaseExpiresAt: isoTime(message.leaseUntil),
    })),
  };
}

function sendRow(queue: QueueRow, given: GivenMessage, index: number, traceparent: string | undefined, bounds: MessageBounds): SendRow {
  const { body, attributes } = checkMessage(given, index, queue.type, bounds);
  const dedup = dedupOf(queue.settings, given.dedupId, () => createHash("sha256").update(body).digest("hex"));
  let meta: MessageMeta | null = null;
  if (dedup.shown !== undefined || traceparent !== undefined) meta = { dedupId: dedup.shown, traceparent };
  return {
    queueNo: queue.no,
    body,
    attributes,
    meta,
    groupKey: given.groupId ?? null,
    dedupId: dedup.key,
    delayMs: given.delaySeconds === undefined ? null : given.delaySeconds * 1000,
  };
}

const missing = (): Fault => new Fault("queue_not_found", "There is no such queue.");

/** Makes the message verbs of one store. `maxMessageBytes` is the server's bound on a message (Q5). */
export function createMessages(deps: {
  store: Store;
  clock: Clock;
  directory: Directory;
  maxMessageBytes?: number;
  safetyMs?: number;
}): Messages {
  const { store, clock, directory } = deps;
  const bounds: MessageBounds = { ...ezghBounds, maxBytes: deps.maxMessageBytes ?? ezghBounds.maxBytes };

  const release = async (queueNo: number, messages: readonly ClaimedMessage[]): Promise<void> => {
    const rows = messages.map(({ seq, receipt }) => ({ queueNo, seq, receipt, outcome: "release" as const, delayMs: 0 }));
    // Should this fail too, the leases end by themselves.
    await store.settle(rows).catch(() => undefined);
  };
  const waiting = createWaiting({ store, clock, release, safetyMs: deps.safetyMs });

  // Of the queues that change, some are gone: their waits end.
  const stop = directory.onChange((queueNo) => {
    if (!waiting.waitsAt(queueNo)) return;
    directory.byNo(queueNo).then(
      (queue) => queue === null && waiting.end(queueNo),
      // The wait ends by its own time.
      () => undefined,
    );
  });

  const accepted = (queue: QueueRow, result: SendResult): Exclude<SendResult, { refused: unknown }> => {
    if (!("refused" in result)) return result;
    if (result.refused === "backlog_full")
      throw new Fault("backlog_full", `The queue ${queue.name} is full.`, { retryAfterSeconds: FULL_RETRY_SECONDS });
    if (result.refused === "quota_exceeded") throw quotaExceeded(clock.now());
    directory.changed(queue.no);
    throw missing();
  };

  /** Settles what can be read of the receipts, and answers each in its place. */
  const settle = async (receipts: readonly string[], rowOf: (index: number, lease: { seq: number; receipt: number }) => SettleRow) => {
    const rows: SettleRow[] = [];
    const places = receipts.map((text, index) => {
      const lease = readReceipt(text);
      return lease === null ? -1 : rows.push(rowOf(index, lease)) - 1;
    });
    const settled = rows.length === 0 ? [] : await store.settle(rows);
    const results = receipts.map((receipt, index) => {
      const result = settled[places[index] as number];
      return { receipt, ...(result === undefined ? foreignReceipt : receiptOutcome(result.result)) };
    });
    return { results };
  };

  return {
    accepted,
    async send(queue, given, traceparent, key) {
      const rows = given.map((message, index) => sendRow(queue, message, index, traceparent, bounds));
      const [first] = rows;
      if (first !== undefined) first.together = rows.length - 1;
      // With a backlog limit the rows could be stored in part: only the cold verb takes all or none.
      const apart = key !== null || (rows.length > 1 && queue.settings.maxBytes !== null);
      const results = apart ? (await store.once(key, "sendMessages", rows)).result : await store.send(rows);
      const ordered = queue.type === "fifo";
      return {
        messages: results.map((result) => {
          const { messageId, seq, deduplicated } = accepted(queue, result);
          return { messageId, seq: ordered ? String(seq) : undefined, deduplicated: deduplicated || undefined };
        }),
      };
    },
    async receive(queue, given, gone) {
      const waitMs = (given.waitSeconds ?? 0) * 1000;
      const messages = await waiting.receive({
        queueNo: queue.no,
        batchSize: given.maxMessages ?? 1,
        leaseMs: given.visibilityTimeoutSeconds === undefined ? null : given.visibilityTimeoutSeconds * 1000,
        waitMs,
        gone,
      });
      // Nothing came: the queue may have been deleted during the wait.
      if (waitMs > 0 && messages.length === 0 && (await directory.byNo(queue.no)) === null) throw missing();
      return messages;
    },
    release,
    ack: (queue, receipts) => settle(receipts, (_, lease) => ({ queueNo: queue.no, ...lease, outcome: "ack" })),
    changeVisibility: (queue, given) =>
      settle(
        given.map(({ receipt }) => receipt),
        (index, lease) => {
          const delayMs = (given[index]?.visibilityTimeoutSeconds ?? 0) * 1000;
          return { queueNo: queue.no, ...lease, outcome: delayMs === 0 ? "retry" : "extend", delayMs };
        },
      ),
    peek: (queue, state, after, limit) => peekPage(store, directory, queue, { state, after, limit }),
    async purge(queue, scope) {
      let purged = 0;
      let uptoSeq: number | null = null;
      for (;;) {
        const step: { purged: number; uptoSeq: number; done: boolean } = await store.run("purge", queue.no, scope, uptoSeq, PURGE_ROWS);
        purged += step.purged;
        uptoSeq = step.uptoSeq;
        if (step.done) return purged;
      }
    },
    close() {
      stop();
      waiting.close();
    },
  };
}
