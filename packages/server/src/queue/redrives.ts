/** Redrives as jobs: started here, moved along by housekeeping, watched and cancelled by id (Q14). */
import { type Answer, Fault, type Operations } from "@millrace/contract";
import { uuidv7 } from "uuidv7";
import type { RedriveRow } from "../store/redrive.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey, QueueRow } from "../store/types.ts";
import { isoTime } from "./settings.ts";

type WireRedrive = Answer<Operations["GetRedrive"]>;

export interface Redrives {
  /** Starts one over all dead letters the queue holds now, or over those named. */
  start(
    queue: QueueRow,
    given: { messageIds?: readonly string[] | undefined; ratePerSecond?: number | undefined },
    key: IdempotencyKey | null,
  ): Promise<WireRedrive>;
  get(queue: QueueRow, id: string): Promise<WireRedrive>;
  /** Stops it; what was moved stays moved. One that has ended is answered as it is. */
  cancel(queue: QueueRow, id: string): Promise<WireRedrive>;
}

function wireRedrive(queue: QueueRow, row: RedriveRow): WireRedrive {
  return {
    id: row.id,
    queueId: queue.id,
    state: row.state,
    selected: row.selected,
    moved: row.moved,
    remaining: row.state === "running" ? Math.max(0, row.selected - row.moved - row.failed) : 0,
    failed: row.failed,
    lastError: row.lastError,
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}

function found(row: RedriveRow | null): RedriveRow {
  if (row === null) throw new Fault("redrive_not_found", "There is no such redrive of this queue.");
  return row;
}

/** Makes the redrive verbs of one store. `onStart` wakes housekeeping. */
export function createRedrives(deps: { store: Store; newId?: () => string; onStart?: () => void }): Redrives {
  const { store } = deps;
  const newId = deps.newId ?? uuidv7;
  return {
    async start(queue, given, key) {
      const { result } = await store.once(key, "startRedrive", {
        id: newId(),
        queueNo: queue.no,
        messageIds: given.messageIds === undefined ? null : [...new Set(given.messageIds)],
        ratePerSecond: given.ratePerSecond ?? null,
      });
      deps.onStart?.();
      return wireRedrive(queue, result);
    },
    get: async (queue, id) => wireRedrive(queue, found(await store.run("getRedrive", queue.no, id))),
    cancel: async (queue, id) => wireRedrive(queue, found(await store.run("cancelRedrive", queue.no, id))),
  };
}
