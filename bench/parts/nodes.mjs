/** Several servers on one PostgreSQL, as a cluster has them. */
import pg from "pg";
import { until } from "./machine.mjs";
import { startProduct } from "./product.mjs";

/**
 * Starts `count` nodes on a database that is empty. `nodes[0]` has the key, which the others take too; `query` asks the database.
 * `stop` ends all of it.
 */
export async function startNodes(databaseUrl, count) {
  const nodes = [];
  // One after the other: the first makes the schema and the key.
  for (let n = 0; n < count; n += 1) nodes.push(await startProduct({ databaseUrl }));
  const database = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  const [first] = nodes;
  const query = async (text, values) => (await database.query(text, values)).rows;
  return {
    nodes,
    first,
    query,
    /** Resolves once every node owns its share of the 256 slots. */
    async shared() {
      const least = Math.floor(256 / count);
      const held = async () => {
        const owners = await query("SELECT count(*)::int AS n FROM slot WHERE node_id IS NOT NULL GROUP BY node_id");
        return owners.length === count && owners.every(({ n }) => n >= least);
      };
      await until("sharing the slots", held, { everyMs: 200, mostMs: 120_000 });
    },
    async stop() {
      await database.end();
      for (const node of nodes) await node.stop();
    },
  };
}
