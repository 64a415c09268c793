/** What a look at a cluster's database brings to light, before anybody judges it. */
import type { NodeRow } from "./types.ts";

/** A table that empties and fills all day, as PostgreSQL's statistics have it. */
export interface TableState {
  name: string;
  bytes: number;
  live: number;
  dead: number;
  /** Milliseconds since autovacuum last went over it; `null`: never. */
  vacuumedAgoMs: number | null;
}

/** A further database as the default one knows it, and as it knows itself. */
export interface NamedDatabase {
  name: string;
  id: string;
}

export interface Examination {
  /** As PostgreSQL numbers itself: 150004 is 15.4. */
  serverVersion: number;
  /** Settings of the database by name, in its own units. */
  settings: Record<string, string>;
  /** The schema's version; `null` before the first start. */
  schema: number | null;
  nodes: NodeRow[];
  /** The further databases that were ever joined to this one. */
  joined: NamedDatabase[];
  /** Who this database says it is; `null` for a default one, and before the first start. */
  itself: NamedDatabase | null;
  /** Slots whose owner is no node that was seen within the last 10 s. */
  orphanedSlots: number;
  tables: TableState[];
  /** The longest open transaction of anybody, in milliseconds, and who has it. */
  oldestTransaction: { ms: number; by: string } | null;
  /** Connections to the server in all, those of them that are to other databases, and the most there may be. */
  connections: { used: number; elsewhere: number; most: number };
  /** How far this machine's wall clock is ahead of the database's, in milliseconds. */
  skewMs: number;
}
