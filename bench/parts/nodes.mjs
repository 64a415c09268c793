/** Several servers on one PostgreSQL, as a cluster has them. */
import pg from "pg";
import { startProduct } from "./product.mjs";

/**
 * Starts `count` nodes on a database of their own. `nodes[0]` has the key, which the others take too; `query` asks the database.
 * `stop` ends all of it.
 */
export async function startNodes(postgres, count) {
  const url = await postgres.fresh();
  const nodes = [];
  // One after the other: the first makes the schema and the key.
  for (let n = 0; n < count; n += 1) nodes.push(await startProduct({ postgres: { fresh: async () => url } }));
  const database = new pg.Pool({ connectionString: url, max: 2 });
  const [first] = nodes;
  const query = async (text, values) => (await database.query(text, values)).rows;
  return {
    nodes,
    first,
    query,
    /** Resolves once every node owns its share of the 256 slots. */
    async shared() {
      const least = Math.floor(256 / count);
      for (;;) {
        const owners = await query("SELECT count(*)::int AS n FROM slot WHERE node_id IS NOT NULL GROUP BY node_id");
        if (owners.length === count && owners.every(({ n }) => n >= least)) return;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    },
    async stop() {
      await database.end();
      for (const node of nodes) await node.stop();
    },
  };
}
