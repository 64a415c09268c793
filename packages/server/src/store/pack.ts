/**
 * A hot batch and its answer as they cross to the worker and back: one array of numbers, one of the rarer texts, and one buffer of
 * all bodies. Cloning objects costs more than the database work behind them.
 */
import type { StoredMessage } from "./claim.ts";
import type { HotAnswer, HotBatch } from "./hot.ts";
import type { HotSettle } from "./settle.ts";
import type { SendRefusal, SettleResult } from "./types.ts";

export interface Packed {
  numbers: Float64Array;
  texts: string[];
  bytes: Uint8Array;
}

const OUTCOMES: HotSettle["outcome"][] = ["ack", "retry", "release", "dead", "extend", "expire"];
const RESULTS: SettleResult["result"][] = ["acked", "retrying", "released", "extended", "dead", "dropped", "expired", "stale", "gone"];
const REFUSALS: SendRefusal[] = ["queue_not_found", "backlog_full", "quota_exceeded"];
/** Stands for an absent number. */
const NONE = -1;

function writer() {
  const numbers: number[] = [];
  const texts: string[] = [];
  const bodies: Uint8Array[] = [];
  let length = 0;
  return {
    numbers,
    text: (value: string | null | undefined) => numbers.push(value == null ? 0 : texts.push(value)),
    body: (value: Uint8Array) => {
      numbers.push(value.length);
      bodies.push(value);
      length += value.length;
    },
    done: (): Packed => {
      const bytes = new Uint8Array(length);
      let at = 0;
      for (const body of bodies) {
        bytes.set(body, at);
        at += body.length;
      }
      return { numbers: new Float64Array(numbers), texts, bytes };
    },
  };
}

function reader({ numbers, texts, bytes }: Packed) {
  let at = 0;
  let offset = 0;
  const number = () => numbers[at++] as number;
  return {
    number,
    optional: () => {
      const value = number();
      return value === NONE ? null : value;
    },
    text: () => {
      const no = number();
      return no === 0 ? null : (texts[no - 1] as string);
    },
    body: () => {
      const length = number();
      const body = bytes.subarray(offset, offset + length);
      offset += length;
      return body;
    },
  };
}

/** So many items, read one after the other. */
function list<Item>(length: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let i = 0; i < length; i++) items.push(read());
  return items;
}

/** The buffers of a packed batch, to be handed over rather than copied. */
export const buffersOf = (packed: Packed): ArrayBuffer[] => [packed.numbers.buffer as ArrayBuffer, packed.bytes.buffer as ArrayBuffer];

export function packBatch({ settles, claims, sends }: HotBatch): Packed {
  const out = writer();
  const n = out.numbers;
  n.push(settles.length, claims.length, sends.length);
  for (const row of settles) {
    n.push(row.queueNo, row.seq, row.receipt, OUTCOMES.indexOf(row.outcome), row.delayMs ?? NONE);
    out.text(row.error);
  }
  for (const ask of claims) n.push(ask.queueNo, ask.batchSize, ask.batches, ask.leaseMs ?? NONE);
  for (const row of sends) {
    n.push(row.queueNo, row.delayMs ?? NONE, row.together ?? 0);
    out.text(row.attributes);
    out.text(row.meta);
    out.text(row.groupKey);
    out.text(row.dedupId);
    out.body(row.body);
  }
  return out.done();
}

export function unpackBatch(packed: Packed): HotBatch {
  const x = reader(packed);
  const [settles, claims, sends] = [x.number(), x.number(), x.number()];
  return {
    settles: list(settles, () => ({
      queueNo: x.number(),
      seq: x.number(),
      receipt: x.number(),
      outcome: OUTCOMES[x.number()] as HotSettle["outcome"],
      delayMs: x.optional() ?? undefined,
      error: x.text() ?? undefined,
    })),
    claims: list(claims, () => ({
      queueNo: x.number(),
      batchSize: x.number(),
      batches: x.number(),
      leaseMs: x.optional(),
    })),
    sends: list(sends, () => ({
      queueNo: x.number(),
      delayMs: x.optional(),
      together: x.number(),
      attributes: x.text(),
      meta: x.text(),
      groupKey: x.text(),
      dedupId: x.text(),
      body: x.body(),
    })),
  };
}

export function packAnswer({ settles, claims, sends, late }: HotAnswer): Packed {
  const out = writer();
  const n = out.numbers;
  n.push(settles.length, claims.length, sends.length, late.length);
  for (const { result, at } of settles) n.push(RESULTS.indexOf(result), at ?? NONE);
  for (const { batches, nextInMs } of claims) {
    n.push(nextInMs ?? NONE, batches.length);
    for (const batch of batches) {
      n.push(batch.length);
      for (const m of batch) {
        n.push(m.queueNo, m.seq, m.receipt, m.origin, m.sentAt, m.expiresAt, m.leaseUntil, m.receives, m.attempts);
        out.text(m.attributes);
        out.text(m.meta);
        out.text(m.groupKey);
        out.body(m.body);
      }
    }
  }
  for (const row of sends) {
    if ("refused" in row) n.push(REFUSALS.indexOf(row.refused) + 2);
    else n.push(row.deduplicated ? 1 : 0, row.seq, row.sentAt, row.deliverAt);
  }
  for (const row of late) n.push(row.queueNo, row.seq, row.receipt);
  return out.done();
}

export function unpackAnswer(packed: Packed): HotAnswer {
  const x = reader(packed);
  const [settles, claims, sends, late] = [x.number(), x.number(), x.number(), x.number()];
  return {
    settles: list(settles, () => {
      const result = RESULTS[x.number()] as SettleResult["result"];
      const at = x.optional();
      return at === null ? { result } : { result, at };
    }),
    claims: list(claims, () => ({
      nextInMs: x.optional(),
      batches: list(x.number(), () => list(x.number(), () => readMessage(x))),
    })),
    sends: list(sends, () => {
      const kind = x.number();
      const refused = REFUSALS[kind - 2];
      if (refused !== undefined) return { refused };
      return { seq: x.number(), sentAt: x.number(), deliverAt: x.number(), deduplicated: kind === 1 };
    }),
    late: list(late, () => ({ queueNo: x.number(), seq: x.number(), receipt: x.number() })),
  };
}

function readMessage(x: ReturnType<typeof reader>): StoredMessage {
  return {
    queueNo: x.number(),
    seq: x.number(),
    receipt: x.number(),
    origin: x.number(),
    sentAt: x.number(),
    expiresAt: x.number(),
    leaseUntil: x.number(),
    receives: x.number(),
    attempts: x.number(),
    attributes: x.text(),
    meta: x.text(),
    groupKey: x.text(),
    body: x.body(),
  };
}
