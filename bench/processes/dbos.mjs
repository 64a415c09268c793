/**
 * The peer of figure 7: DBOS, whose engine is a library in the program's own process over a PostgreSQL of its own. The same functions as
 * the executor's, each step recorded durably before the code after it runs; so many runs are under way at once, the next begins when one
 * has ended.
 */
import { serveJobs } from "../parts/child.mjs";
import { inParallel } from "../parts/product.mjs";

let dbos = null;
const workflows = new Map();

serveJobs({
  /** Opens a database of its own, with so many connections. Answers whether the library is installed. */
  async open({ databaseUrl, connections }) {
    try {
      dbos = (await import("@dbos-inc/dbos-sdk")).DBOS;
    } catch (error) {
      if (error.code === "ERR_MODULE_NOT_FOUND") return { installed: false };
      throw error;
    }
    dbos.setConfig({
      name: "bench",
      systemDatabaseUrl: databaseUrl,
      systemDatabasePoolSize: connections,
      logLevel: "error",
      runAdminServer: false,
    });
    for (const [name, steps] of [
      ["one", 1],
      ["five", 5],
    ]) {
      const stepping = async ({ n }) => {
        let sum = n;
        for (let i = 1; i <= steps; i += 1) sum = await dbos.runStep(async () => sum + i, { name: `step ${i}` });
        return sum;
      };
      workflows.set(name, dbos.registerWorkflow(stepping, { name }));
    }
    await dbos.launch();
    return { installed: true };
  },
  /** Runs so many, so many at once; answers runs per second. */
  async run({ workflow, total, atOnce }) {
    const start = performance.now();
    await inParallel(total, atOnce, async () => {
      const handle = await dbos.startWorkflow(workflows.get(workflow))({ n: 1 });
      await handle.getResult();
    });
    return { perSecond: (total * 1000) / (performance.now() - start) };
  },
});
