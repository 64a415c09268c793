/**
 * `npm run bench`: every figure that is asked of the product, beside its limit measured in the same run. It fails nothing: a missed
 * target is printed as missed. Options: --only 1,3 --engine sqlite|postgres --seconds 3 --rounds 5 --backlog 1000000 --sleeping 100000 --json --write FILE
 * --profile DIR.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as single from "./figures/1-single-sends.mjs";
import * as tens from "./figures/2-sends-of-ten.mjs";
import * as push from "./figures/3-push.mjs";
import * as storeAlone from "./figures/4-store.mjs";
import * as backlog from "./figures/5-backlog.mjs";
import * as idle from "./figures/6-idle.mjs";
import * as workflows from "./figures/7-workflows.mjs";
import * as latency from "./figures/8-latency.mjs";
import * as fifo from "./figures/9-fifo.mjs";
import * as topics from "./figures/10-topics.mjs";
import * as nodes from "./figures/11-nodes.mjs";
import * as waiting from "./figures/12-waiting-runs.mjs";
import { createBench } from "./parts/bench.mjs";
import { machineFacts, machineState } from "./parts/machine.mjs";
import { postgresSettings } from "./parts/postgres-settings.mjs";
import { table } from "./parts/table.mjs";

const figures = [single, tens, push, storeAlone, backlog, idle, workflows, latency, fifo, topics, nodes, waiting];
const { values: options } = parseArgs({
  options: {
    only: { type: "string" },
    engine: { type: "string" },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    backlog: { type: "string", default: "1000000" },
    sleeping: { type: "string", default: "100000" },
    json: { type: "boolean", default: false },
    write: { type: "string" },
    profile: { type: "string" },
  },
});

const wanted = options.only === undefined ? null : new Set(options.only.split(",").map(Number));
const chosen = figures.filter(({ number }) => wanted === null || wanted.has(number));
const engines = options.engine === undefined ? ["sqlite", "postgres"] : [options.engine];
const say = (text) => process.stderr.write(`${text}\n`);

const rows = [];
const before = machineState();
let postgresVersion = null;
for (const engine of engines) {
  const postgres = engine === "postgres" ? await startDatabase() : null;
  for (const figure of chosen) {
    say(`figure ${figure.number} on ${engine} …`);
    const bench = await createBench({
      postgres,
      seconds: Number(options.seconds),
      rounds: Number(options.rounds),
      backlog: Number(options.backlog),
      sleeping: Number(options.sleeping),
      profileDir: options.profile ?? null,
    });
    const begun = performance.now();
    try {
      for (const row of await figure.run(bench)) rows.push({ figure: figure.number, engine, ...row });
    } catch (error) {
      rows.push({
        figure: figure.number,
        engine,
        what: "could not be measured",
        unit: "",
        limit: null,
        measured: null,
        ratio: null,
        target: "",
        met: null,
        error: error.message,
      });
      say(String(error.stack ?? error));
    } finally {
      await bench.close();
    }
    say(table(rows.filter((row) => row.figure === figure.number && row.engine === engine)));
    say(`(${((performance.now() - begun) / 1000).toFixed(0)} s)`);
  }
  await postgres?.stop();
}

const facts = machineFacts(postgresVersion);
const after = machineState();
const conditions = [
  Object.entries(facts)
    .map(([name, value]) => `${name} ${value}`)
    .join(" · "),
  `load average at the start ${before.loadAverage}; flushes of 16 KiB a second before ${before.flushesPerSecond.toLocaleString("en")}, after ${after.flushesPerSecond.toLocaleString("en")}`,
  `medians of ${options.rounds} alternating rounds (limit, product, …) of ${options.seconds} s; server, load generator and endpoint share the cores`,
];
if (options.json) {
  const methods = chosen.map(({ number, method }) => ({ number, method }));
  console.log(JSON.stringify({ facts, before, after, options, rows, methods }, null, 2));
} else {
  console.log(`\n${conditions.join("\n")}\n\n${table(rows)}\n\nHow each figure is made:`);
  for (const { number, method } of chosen) console.log(`${number}. ${method}`);
}
if (options.write !== undefined) {
  const [start, end] = ["<!-- results -->", "<!-- end of results -->"];
  const page = readFileSync(options.write, "utf8");
  const [head, rest] = page.split(start);
  const tail = rest?.split(end)[1];
  if (tail === undefined) say(`${options.write} has no place for results (${start} … ${end})`);
  else
    writeFileSync(
      options.write,
      `${head}${start}\n\n${conditions.map((line) => `- ${line}`).join("\n")}\n\n${table(rows)}\n\n${end}${tail}`,
    );
}

const store = fileURLToPath(new URL("store.ts", import.meta.url));
if (existsSync(store) && !options.json && (wanted === null || wanted.has(4))) {
  console.log("\nThe store alone, in one process, without HTTP (figure 4):");
  for (const engine of engines) await benchStore(engine);
}
process.exit(0);

/** A PostgreSQL of the run's own; also notes its version. */
async function startDatabase() {
  const { startPostgres } = await import("@millrace/testkit");
  const server = await startPostgres(postgresSettings);
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  const { rows: found } = await client.query("SHOW server_version");
  await client.end();
  postgresVersion = found[0].server_version.split(" ")[0];
  return server;
}

/** Runs the store's own bench on an engine; its lines go to stdout. */
async function benchStore(engine) {
  const postgres = engine === "postgres" ? await startDatabase() : null;
  const flags = ["--import", "tsx", "--conditions=@millrace/source", store];
  if (postgres !== null) flags.push(await postgres.fresh());
  await new Promise((resolve) => spawn(process.execPath, flags, { stdio: "inherit" }).once("exit", resolve));
  await postgres?.stop();
}
