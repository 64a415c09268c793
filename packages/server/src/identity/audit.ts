/**
 * The audit log (A7): who called what, from where, and what came of it. A management call is answered once it is kept, so no crash loses
 * one that was answered; calls that wait at the same time are kept in one transaction. A log that can't be written stops no call.
 */
import type { Chore } from "../queue/housekeeping.ts";
import type { AuditedCall, AuditRow } from "../store/audit.ts";
import type { Store } from "../store/store.ts";
import type { Page } from "./tenancy.ts";

export type { AuditedCall, AuditRow } from "../store/audit.ts";

export interface Audit {
  /** Keeps a call; never rejects. */
  record(call: AuditedCall): Promise<void>;
  /** Up to `limit` calls of an organization that `shows` lets through, newest first; `after` to go on from, `null` at the end. */
  list(organizationNo: number, page: { before: number | null; limit: number }, shows: (call: AuditRow) => boolean): Promise<Page<AuditRow>>;
}

/** Calls of one transaction at most. */
const BATCH = 200;
/** Rows read at once, and how often for one answer: a key that reaches little of a long log gets short pages. */
const STRIDE = 200;
const STRIDES = 10;
/** What one run of the chore removes at most. */
const EXPIRED = 500;

/** Makes the log of one store. `failed` hears of calls that could not be kept. */
export function createAudit({ store, failed }: { store: Store; failed: (error: unknown, calls: number) => void }): Audit {
  let waiting: AuditedCall[] = [];
  let turn: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    turn = undefined;
    const calls = waiting;
    waiting = [];
    for (let from = 0; from < calls.length; from += BATCH) {
      const some = calls.slice(from, from + BATCH);
      await store.run("addAudit", some).catch((error) => failed(error, some.length));
    }
  };
  let last: Promise<void> = Promise.resolve();

  return {
    record(call) {
      waiting.push(call);
      // Whoever comes while a transaction is under way shares the next one.
      turn ??= last = last.then(write);
      return turn;
    },
    async list(organizationNo, { before, limit }, shows) {
      const rows: AuditRow[] = [];
      let after = before;
      for (let strides = 0; strides < STRIDES; strides++) {
        const { calls, next } = await store.run("listAudit", organizationNo, { before: after, limit: STRIDE });
        for (const call of calls) {
          if (!shows(call)) continue;
          if (rows.length === limit) return { rows, after: rows.at(-1)?.no ?? null };
          rows.push(call);
        }
        after = next;
        if (next === null) break;
      }
      return { rows, after };
    },
  };
}

/** Removes what is older than 30 days. */
export function auditChore(store: Store): Chore {
  return { name: "audit", everyMs: 3_600_000, run: async (own = store) => ((await own.run("expireAudit", EXPIRED)) >= EXPIRED ? 0 : null) };
}
