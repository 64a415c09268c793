/**
 * The state of a message as one looks at it (Q4), decided in SQL by the row and the instant. In a limited group (Q19: 2 to 1,000) it is
 * also a matter of the others: its first due members are ready, as many as may still be leased, and the rest waits.
 */
import type { Tx } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";
import { readQueues } from "./queue-memory.ts";

export type MessageState = "scheduled" | "ready" | "waiting" | "inflight" | "dead";

/**
 * The state of a row `m` by itself. A due message without a lease is ready if it stands in line; a member of a group that does not is
 * behind its head. A head that stands later than it is due is kept by its group. With `:free` 1 nobody is kept by anybody.
 */
export const STATE = `CASE WHEN m.dead_at IS NOT NULL THEN 'dead' WHEN m.receipt IS NOT NULL AND m.due_at > :now THEN 'inflight'
  WHEN m.due_at > :now THEN 'scheduled' WHEN :free = 0 AND m.group_key IS NOT NULL AND (m.line_at IS NULL OR m.line_at > :now) AND m.later_at IS NULL
  THEN 'waiting' ELSE 'ready' END`;

/** What a queue's groups mean for states: `free` is a parameter of `STATE`, `params` are those of `statesFrom`. */
export interface Keeping {
  free: 0 | 1;
  /** Set where groups are limited. */
  limit: number | null;
  params: { free: 0 | 1; limit?: number };
}

/** How groups keep messages waiting in a queue. */
export async function keepingIn(tx: Tx, queueNo: number): Promise<Keeping> {
  const set = (await readQueues(tx, [queueNo])).get(queueNo)?.limit;
  const free = set === null ? 1 : 0;
  const limit = set === null || set === undefined || set === 1 ? null : set;
  return { free, limit, params: limit === null ? { free } : { free, limit } };
}

/**
 * The numbers and states of a queue's first `:most` live messages: the text of a query with `:queueNo`, `:now` and the `params`.
 */
export function statesFrom({ limit }: Keeping): string {
  const alone = `SELECT m.seq, m.group_key, ${STATE} AS state FROM message AS m WHERE m.queue_no = :queueNo AND m.${ANY_QUEUE} AND m.dead_at IS NULL
    ORDER BY m.queue_no, m.seq LIMIT :most`;
  if (limit === null) return alone;
  return `SELECT r.seq, r.group_key, CASE WHEN r.due = 0 OR r.group_key IS NULL THEN r.state
      WHEN r.place + r.flying <= :limit THEN 'ready' ELSE 'waiting' END AS state
    FROM (SELECT a.seq, a.group_key, a.state, a.due, row_number() OVER (PARTITION BY a.group_key, a.due ORDER BY a.seq) AS place,
        sum(CASE WHEN a.state = 'inflight' THEN 1 ELSE 0 END) OVER (PARTITION BY a.group_key) AS flying
      FROM (SELECT s.seq, s.group_key, s.state, CASE WHEN s.state IN ('ready', 'waiting') THEN 1 ELSE 0 END AS due FROM (${alone}) AS s) AS a
    ) AS r`;
}

/** A row whose state `STATE` has said, for `withLimits` to correct. */
export interface Stated {
  seq: number;
  group_key: string | null;
  state: MessageState;
}

/** Corrects the states of some messages of a queue by the limits of their groups: reads each group as far as its limit. */
export async function withLimits<Row extends Stated>(tx: Tx, queueNo: number, { limit }: Keeping, rows: Row[]): Promise<Row[]> {
  const due = (row: Row): boolean => row.group_key !== null && (row.state === "ready" || row.state === "waiting");
  if (limit === null) return rows;
  const groups = [...new Set(rows.filter(due).map((row) => row.group_key as string))];
  const flying = await tx.each<{ group_key: string; n: number }>(
    "group.flying",
    groups.map((group) => [queueNo, group, limit]),
  );
  const free = flying.filter(({ n }) => n < limit).map(({ group_key: group, n }): [number, string, number] => [queueNo, group, limit - n]);
  const last = new Map<string, number>();
  for (const { group_key: group, seq } of await tx.each<{ group_key: string; seq: number | null }>("state.last", free))
    last.set(group, seq ?? 0);
  return rows.map((row) => (due(row) ? { ...row, state: row.seq <= (last.get(row.group_key as string) ?? 0) ? "ready" : "waiting" } : row));
}
