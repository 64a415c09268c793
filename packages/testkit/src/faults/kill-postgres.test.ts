import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { seed } from "./chance.ts";
import { type MillraceProcess, millrace } from "./millrace-process.ts";
import { rounds, type Struck, struck } from "./strike.ts";

const plant = fileURLToPath(new URL("./answer-before-commit.mjs", import.meta.url));
const unsynced = fileURLToPath(new URL("./unsynced-commits.mjs", import.meta.url));

let database: PostgresServer;
beforeAll(async () => {
  database = await startPostgres();
});
afterAll(() => database.stop());

async function withServer<T>(use: (server: MillraceProcess) => Promise<T>, preload?: string, on = database): Promise<T> {
  const server = await millrace({ databaseUrl: await on.fresh(), preload });
  await server.start();
  try {
    return await use(server);
  } finally {
    await server.kill();
  }
}

const killed = (times: number, preload?: string): Promise<Struck> =>
  withServer(
    (server) =>
      struck({
        server,
        rounds: times,
        seed: seed(),
        callsDuring: false,
        countsSurvive: true,
        waitForPushes: false,
        async strike(round) {
          await server.kill("SIGKILL");
          // In its last life a planted bug sleeps: what is left must come to its end.
          await server.start(round < times ? { MILLRACE_TEST_PLANT: "1" } : {});
        },
      }),
    preload,
  );

it("Q6, Q7, P23, CTRL-07: on PostgreSQL kill -9 of the server loses nothing and resurrects nothing", { timeout: 600_000 }, async () => {
  const { violations, oddities, answered } = await killed(rounds(5));
  expect(violations).toEqual([]);
  expect(oddities).toEqual([]);
  expect(answered).toBeGreaterThan(100);
});

it("the kill loop catches a server on PostgreSQL that answers before it commits", { timeout: 300_000 }, async () => {
  const { violations } = await killed(3, plant);
  expect(new Set(violations.map(({ rule }) => rule))).toContain("lost");
});

/** Asks until the probe answers so; the test's own deadline bounds it. */
async function readiness(server: MillraceProcess, status: number): Promise<void> {
  for (;;) {
    const answer = await fetch(`${server.url}/readyz`);
    await answer.text();
    if (answer.status === status) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The database crashes again and again, under load. */
const crashed = (times: number, on = database, preload?: string): Promise<Struck> =>
  withServer(
    (server) =>
      struck({
        server,
        rounds: times,
        seed: seed(),
        callsDuring: true,
        // A claim's commit is not waited for: a crash of the database may take it back, and the message comes again.
        countsSurvive: false,
        waitForPushes: preload === undefined,
        async strike() {
          await on.halt("immediate");
          await readiness(server, 503);
          await on.resume();
          await readiness(server, 200);
        },
      }),
    preload,
    on,
  );

it("Q6, A13, CTRL-06: PostgreSQL crashing under load loses nothing; readiness tells, sends and deliveries resume by themselves", {
  timeout: 600_000,
}, async () => {
  const { violations } = await crashed(rounds(4));
  expect(violations).toEqual([]);
});

it("the crash loop catches a server that answers before PostgreSQL has written its log", { timeout: 300_000 }, async () => {
  // The log is left unwritten for long enough that every crash takes something back.
  const lazy = await startPostgres({ wal_writer_delay: "10s" });
  try {
    const { violations } = await crashed(3, lazy, unsynced);
    expect(new Set(violations.map(({ rule }) => rule))).toContain("lost");
  } finally {
    await lazy.stop();
  }
});
