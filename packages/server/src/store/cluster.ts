/**
 * Cold verbs of a cluster (A13), on PostgreSQL alone: nodes say that they live, share out the slots and hand them over. Everything here
 * goes by the database's own time, without a virtual clock's offset: leases of nodes are real. A slot's owner changes only under
 * the slot's lock, which every fenced change holds too (see `fence.ts`), and its token grows with it.
 */
import type { Tx } from "../db/db.ts";
import { leftOpen } from "./left-open.ts";
import { place } from "./placement.ts";
import type { NodeRow } from "./types.ts";

/** The number under which changes of the cluster are told like a queue's work: no queue has it. */
export const CLUSTER_NO = -1;

/**
 * Nodes beat one after the other under this lock; the shared-out slots are theirs. Whoever has it waits for no slot's lock: a change by a
 * slot's owner that takes long must not keep all others from beating.
 */
const LOCK = 7_405;
/** A node that was not seen for so long is forgotten when another one starts. */
const FORGOTTEN_MS = 3_600_000;
const NOW = "(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)";

/** What a node says of itself. `wallMs` is its wall clock's time, for the difference between clocks. */
export interface Beat {
  id: string;
  name: string;
  version: string;
  wallMs: number;
  /** Nodes count as alive that were seen within this time. */
  patienceMs: number;
  /** The first beat: whoever had the same name is gone. */
  first: boolean;
}

/** The state after a beat: the slots that are this node's with their tokens, and what it should give away next. */
export interface Beaten {
  slots: { no: number; token: number }[];
  give: { no: number; to: string } | null;
  live: number;
}

const lockCluster = (tx: Tx) => tx.query("SELECT pg_advisory_xact_lock(:lock)", { lock: LOCK });

/** Passes those slots on under which nothing is being changed, but by this transaction; answers their new tokens. */
async function pass(tx: Tx, nos: readonly number[], to: string | null): Promise<{ no: number; token: number }[]> {
  const free = await tx.each<{ no: number }>(
    "slot.try",
    nos.map((no) => [no]),
  );
  return tx.each<{ no: number; token: number }>(
    "slot.pass",
    free.map(({ no }) => [no, to]),
  );
}

const instant = async (tx: Tx): Promise<number> => Number((await tx.query<{ now: number }>(`SELECT ${NOW} AS now`))[0]?.now);

/** Every cold verb of the cluster. */
export const clusterVerbs = {
  leftOpen,

  /** Says that a node lives, and takes the vacant slots that are its share. */
  async beat(tx: Tx, { id, name, version, wallMs, patienceMs, first }: Beat): Promise<Beaten> {
    await lockCluster(tx);
    const now = await instant(tx);
    if (first) await tx.query("DELETE FROM node WHERE (name = :name AND id <> :id) OR seen_at < :at", { name, id, at: now - FORGOTTEN_MS });
    await tx.query(
      `INSERT INTO node (id, name, version, skew_ms, started_at, seen_at) VALUES (:id, :name, :version, :skew, :now, :now)
       ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, skew_ms = excluded.skew_ms`,
      { id, name, version, skew: Math.round(wallMs - now), now },
    );
    const live = (await tx.query<{ id: string }>("SELECT id FROM node WHERE seen_at > :at", { at: now - patienceMs })).map((row) => row.id);
    const slots = await tx.query<{ no: number; node_id: string | null; token: number }>("SELECT no, node_id, token FROM slot ORDER BY no");
    const { take, give } = place(
      id,
      live,
      slots.map(({ no, node_id }) => ({ no, owner: node_id })),
    );
    const taken = await pass(tx, take, id);
    const mine = slots.filter(({ node_id }) => node_id === id);
    return { slots: [...mine.map(({ no, token }) => ({ no, token })), ...taken], give, live: live.length };
  },

  /** Hands a slot to another node, if it is still `id`'s under that token. */
  async giveSlot(tx: Tx, id: string, no: number, token: number, to: string): Promise<boolean> {
    tx.post("slot.lock", [[no]]);
    await lockCluster(tx);
    const [held] = await tx.query("SELECT no FROM slot WHERE no = :no AND node_id = :id AND token = :token", { id, no, token });
    if (held === undefined) return false;
    await pass(tx, [no], to);
    tx.ready(CLUSTER_NO, tx.now);
    return true;
  },

  /** A node stops: its slots are vacant, and the others are told. What it still changes something under they take once that is done. */
  async leaveCluster(tx: Tx, id: string): Promise<number> {
    await lockCluster(tx);
    const mine = await tx.query<{ no: number }>("SELECT no FROM slot WHERE node_id = :id", { id });
    await pass(
      tx,
      mine.map(({ no }) => no),
      null,
    );
    await tx.query("DELETE FROM node WHERE id = :id", { id });
    tx.ready(CLUSTER_NO, tx.now);
    return mine.length;
  },

  /** The age of the longest open transaction of anybody but this one, in milliseconds; 0 when there is none. */
  async oldestTransaction(tx: Tx): Promise<number> {
    const [row] = await tx.query<{ ms: number | null }>(
      `SELECT floor(extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000)::bigint AS ms FROM pg_stat_activity
       WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`,
    );
    return Math.max(0, Number(row?.ms ?? 0));
  },

  /** Tells every node of something under a number that no queue has. */
  async tell(tx: Tx, no: number): Promise<null> {
    tx.ready(no, tx.now);
    return null;
  },

  /** Every node that is not forgotten, by name. */
  async listNodes(tx: Tx): Promise<NodeRow[]> {
    const now = await instant(tx);
    const rows = await tx.query<{
      id: string;
      name: string;
      version: string;
      skew_ms: number;
      started_at: number;
      seen_at: number;
      slots: number;
    }>(
      `SELECT n.id AS id, n.name AS name, n.version AS version, n.skew_ms AS skew_ms, n.started_at AS started_at, n.seen_at AS seen_at,
         (SELECT count(*) FROM slot s WHERE s.node_id = n.id) AS slots FROM node n ORDER BY n.name, n.id`,
    );
    return rows.map((row) => ({
      id: row.id,
      name: row.name,
      version: row.version,
      skewMs: row.skew_ms,
      startedAt: row.started_at,
      seenAgoMs: now - row.seen_at,
      slots: Number(row.slots),
    }));
  },
};
