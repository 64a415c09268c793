import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { scratch } from "../scratch.ts";
import { seed } from "./chance.ts";
import { type MillraceOptions, millrace } from "./millrace-process.ts";
import { rounds, type Struck, struck } from "./strike.ts";

const plant = fileURLToPath(new URL("./answer-before-commit.mjs", import.meta.url));

async function killed(times: number, waitForPushes: boolean, options: MillraceOptions = {}): Promise<Struck> {
  const folder = scratch("kill");
  const server = await millrace({ data: join(folder.path, "data"), ...options });
  await server.start();
  try {
    return await struck({
      server,
      rounds: times,
      seed: seed(),
      callsDuring: false,
      countsSurvive: true,
      waitForPushes,
      async strike(round) {
        await server.kill("SIGKILL");
        // In its last life a planted bug sleeps: what is left must come to its end.
        await server.start(round < times ? { MILLRACE_TEST_PLANT: "1" } : {});
      },
    });
  } finally {
    await server.kill();
    folder.remove();
  }
}

it("Q6, Q7, P23, RET-02, CTRL-05, CTRL-07, STORE-11: on SQLite kill -9 at random instants loses nothing and resurrects nothing", {
  timeout: 600_000,
}, async () => {
  const { violations, oddities, answered } = await killed(rounds(8), true);
  expect(violations).toEqual([]);
  expect(oddities).toEqual([]);
  expect(answered).toBeGreaterThan(100);
});

it("the kill loop catches a server that answers before it commits", { timeout: 300_000 }, async () => {
  const { violations } = await killed(3, false, { preload: plant });
  expect(new Set(violations.map(({ rule }) => rule))).toContain("lost");
});
