/**
 * A cluster of server processes on one database, which tests kill, stop and start again. Calls go to the nodes that are up, in turn.
 */
import { slotOf } from "@millrace/server/slots";
import pg from "pg";
import { type MillraceProcess, millrace } from "./millrace-process.ts";

/** A running cluster. */
export interface Cluster {
  readonly nodes: readonly MillraceProcess[];
  /** An address that changes with every call; only nodes that are up are called. */
  readonly server: { readonly url: string; readonly apiKey: string };
  /** Says that a node is about to be struck, and that it can be called again. */
  down(node: MillraceProcess): void;
  up(node: MillraceProcess): void;
  /** The node that delivers the messages of a queue of that name now; `undefined`: none. */
  owner(queue: string): Promise<MillraceProcess | undefined>;
  /** Slots by node, in the order of `nodes`. */
  slots(): Promise<number[]>;
  /** Asks the database itself. */
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  end(): Promise<void>;
}

/** Starts `size` nodes on a database. `urlOf` may lead a node to it by another way, through a proxy of its own. */
export async function startCluster(
  databaseUrl: string,
  size: number,
  { urlOf = () => databaseUrl, env }: { urlOf?: (node: number) => string; env?: Record<string, string> } = {},
): Promise<Cluster> {
  const database = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  database.on("error", () => {});
  const nodes = await Promise.all(
    Array.from({ length: size }, (_, i) => millrace({ databaseUrl: urlOf(i), ...(env === undefined ? {} : { env }) })),
  );
  // One after the other: the first makes the key.
  for (const node of nodes) await node.start();
  const called = new Set(nodes);
  let turn = 0;

  const query: Cluster["query"] = async (text, values = []) => (await database.query(text, values)).rows;
  const named = (name: string | undefined): MillraceProcess | undefined =>
    nodes.find(({ url }) => name !== undefined && new URL(url).port === name.split(":").at(-1));
  return {
    nodes,
    server: {
      get url() {
        const some = [...called];
        turn += 1;
        return (some[turn % some.length] as MillraceProcess).url;
      },
      get apiKey() {
        return (nodes[0] as MillraceProcess).apiKey;
      },
    },
    down: (node) => called.delete(node),
    up: (node) => called.add(node),
    async owner(queue) {
      const [row] = await query<{ no: number }>("SELECT no FROM queue WHERE name = $1", [queue]);
      const [owner] = await query<{ name: string }>(
        `SELECT n.name FROM slot s JOIN node n ON n.id = s.node_id WHERE s.no = $1
           AND n.seen_at > floor(extract(epoch FROM clock_timestamp()) * 1000) - 10000`,
        [slotOf(`queue:${row?.no}`)],
      );
      return named(owner?.name);
    },
    async slots() {
      const rows = await query<{ name: string; n: string }>(
        "SELECT n.name, count(*) AS n FROM slot s JOIN node n ON n.id = s.node_id GROUP BY n.name",
      );
      return nodes.map((node) => Number(rows.find(({ name }) => named(name) === node)?.n ?? 0));
    },
    query,
    async end() {
      await Promise.all(nodes.map((node) => node.kill()));
      await database.end();
    },
  };
}

/** Asks again and again until the answer is not `false`; the test's own deadline bounds it. Answers in how many milliseconds. */
export async function until(met: () => Promise<boolean> | boolean): Promise<number> {
  const from = performance.now();
  while (!(await met())) await new Promise((resolve) => setTimeout(resolve, 25));
  return performance.now() - from;
}
