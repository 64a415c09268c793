/**
 * Wake-ups between nodes: after a commit the other nodes hear which queues have work and in how many milliseconds. One connection
 * listens and tells; whatever gathers while a message is under way goes into the next. A lost connection is made again, and so is one on
 * which the database does not answer; what was told meanwhile is lost, and listeners hear of that as `MISSED`. The same connection sees how much
 * litter vacuum has left.
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { MISSED } from "./db.ts";
import type { ReadyBoard } from "./ready.ts";

const CHANNEL = "millrace_ready";
/** NOTIFY takes less than 8,000 bytes. */
const MOST_QUEUES = 300;
const AGAIN_MS = 1_000;
/** How often the connection is asked something, for how the message table is and to see that it is still one; how long it has to answer. */
const PING_MS = 5_000;
const ANSWER_MS = 5_000;
const PING = "SELECT pg_stat_get_dead_tuples(to_regclass('message')) AS dead";
/** So many dead rows cost a scan from an index's front some ten milliseconds. */
const LITTER = 10_000;

export interface Listening {
  notify(due: ReadonlyMap<number, number>, now: number): void;
  /** Whether so many rows of the message table were dead, when that was last looked at, that scans from an index's front are dear. */
  littered(): boolean;
  close(): Promise<void>;
}

/** Begins to listen; what others tell goes to the board. */
export function listenReady(config: pg.ClientConfig, board: ReadyBoard): Listening {
  const self = randomUUID().slice(0, 8);
  const pending = new Map<number, number>();
  let client: pg.Client | null = null;
  let telling = false;
  let closed = false;
  let lost = false;
  let dead = 0;
  let timer: NodeJS.Timeout | undefined;

  const again = (): void => {
    client = null;
    if (closed) return;
    lost = true;
    timer ??= setTimeout(() => {
      timer = undefined;
      void connect();
    }, AGAIN_MS);
    timer.unref();
  };
  const connect = async (): Promise<void> => {
    const fresh = new pg.Client({ ...config, query_timeout: ANSWER_MS });
    fresh.on("error", () => {});
    fresh.on("end", () => {
      if (client === fresh) again();
    });
    fresh.on("notification", ({ payload = "" }) => {
      const [node, text = ""] = payload.split("|");
      if (node === self) return;
      for (const pair of text.split(",")) {
        const [no, inMs] = pair.split(":").map(Number);
        if (no !== undefined && inMs !== undefined && Number.isFinite(no + inMs)) board.tell(new Map([[no, inMs]]), 0);
      }
    });
    try {
      await fresh.connect();
      await fresh.query(`LISTEN ${CHANNEL}`);
      client = fresh;
      if (closed) await fresh.end();
      else if (lost) board.tell(new Map([[MISSED, 0]]), 0);
      lost = false;
    } catch {
      await fresh.end().catch(() => {});
      again();
    }
  };
  const tell = async (): Promise<void> => {
    telling = true;
    while (pending.size > 0 && client !== null) {
      const some = [...pending].slice(0, MOST_QUEUES);
      for (const [no] of some) pending.delete(no);
      const text = `${self}|${some.map(([no, inMs]) => `${no}:${inMs}`).join(",")}`;
      await client.query({ name: "tell", text: "SELECT pg_notify($1, $2)", values: [CHANNEL, text] }).catch(() => {});
    }
    telling = false;
  };
  // A question without an answer ends the connection by itself.
  const ping = setInterval(() => {
    const asked = client?.query<{ dead: number | null }>(PING);
    asked?.then(
      ({ rows }) => {
        dead = rows[0]?.dead ?? 0;
      },
      () => {},
    );
  }, PING_MS);
  ping.unref();
  const opening = connect();
  return {
    notify(due, now) {
      for (const [no, at] of due) {
        const inMs = Math.max(0, at - now);
        pending.set(no, Math.min(inMs, pending.get(no) ?? inMs));
      }
      if (client === null) pending.clear();
      else if (!telling && pending.size > 0) void tell();
    },
    littered: () => dead >= LITTER,
    async close() {
      closed = true;
      clearTimeout(timer);
      clearInterval(ping);
      await opening;
      await client?.end().catch(() => {});
    },
  };
}
