import { describe, expect, it } from "vitest";
import { lacks } from "../tools.ts";
import { seed } from "./chance.ts";
import { millrace } from "./millrace-process.ts";
import { disk } from "./power-cut.ts";
import { rounds, type Struck, struck } from "./strike.ts";

async function cut(times: number, lie: boolean): Promise<Struck> {
  const on = disk();
  const server = await millrace({ data: on.live, env: on.env() });
  await server.start();
  try {
    return await struck({
      server,
      rounds: times,
      seed: seed(),
      callsDuring: false,
      // A claim need not be flushed: the cut takes it back and the message comes again.
      countsSurvive: false,
      waitForPushes: false,
      async strike(round, random) {
        await server.kill("SIGKILL");
        on.cut(round % 2 === 0 && !lie ? "torn" : "lost", random);
        // The first life is an honest one in any case: it makes the queues.
        await server.start(on.env({ lie }));
      },
    });
  } finally {
    await server.kill();
    on.remove();
  }
}

describe.skipIf(lacks("cc"))("power cuts", () => {
  it("Q6, Q7, RET-02: power cuts at random instants lose no answered send and bring back no answered acknowledgement", {
    timeout: 600_000,
  }, async () => {
    const { violations, answered } = await cut(rounds(5), false);
    expect(violations).toEqual([]);
    expect(answered).toBeGreaterThan(100);
  });

  it("the power-cut loop catches a disk whose flushes do nothing", { timeout: 300_000 }, async () => {
    const { violations } = await cut(2, true);
    expect(new Set(violations.map(({ rule }) => rule))).toContain("lost");
  });
});
