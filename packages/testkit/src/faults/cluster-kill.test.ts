/** Three server processes on one PostgreSQL under load, killed or stopped in turn at random moments; then the history is checked. */
import { afterEach, expect, it } from "vitest";
import { postgres } from "../shared-postgres.ts";
import { seed } from "./chance.ts";
import { type Cluster, startCluster, until } from "./cluster.ts";
import { rounds, type Struck, struck } from "./strike.ts";

let cluster: Cluster | undefined;
afterEach(() => cluster?.end());

/** Strikes a random node of three again and again, while calls go on to the others. */
async function striking(times: number, strike: (node: Cluster["nodes"][number], running: Cluster) => Promise<void>): Promise<Struck> {
  const running = await startCluster(await (await postgres()).fresh(), 3);
  cluster = running;
  return struck({
    server: running.server,
    rounds: times,
    seed: seed(),
    callsDuring: true,
    countsSurvive: true,
    waitForPushes: false,
    async strike(_, random) {
      const node = running.nodes[Math.floor(random() * running.nodes.length)] as Cluster["nodes"][number];
      running.down(node);
      await strike(node, running);
      running.up(node);
    },
  });
}

function expectKept({ violations, oddities, answered }: Struck, atLeast: number): void {
  expect(violations).toEqual([]);
  expect(oddities).toEqual([]);
  expect(answered).toBeGreaterThan(atLeast);
}

it("A13, P13, Q6, Q7, Q9: kill -9 of random nodes under load loses nothing, doubles no acknowledgement, keeps order and limits", {
  timeout: 3_600_000,
}, async () => {
  const outcome = await striking(rounds(20), async (node) => {
    await node.kill("SIGKILL");
    await node.start();
  });
  expectKept(outcome, 1_000);
});

it("A13, P13, CTRL-09: a node that stands still until others have its work does nothing with it when it goes on", {
  timeout: 3_600_000,
}, async () => {
  const outcome = await striking(rounds(2), async (node, running) => {
    process.kill(node.pid as number, "SIGSTOP");
    const at = running.nodes.indexOf(node);
    await until(async () => (await running.slots())[at] === 0);
    process.kill(node.pid as number, "SIGCONT");
    await until(async () => Math.min(...(await running.slots())) >= 85);
  });
  expectKept(outcome, 100);
});
