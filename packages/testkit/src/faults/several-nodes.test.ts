import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, it } from "vitest";
import { scratch } from "../scratch.ts";
import { postgres } from "../shared-postgres.ts";
import { type Api, api, type Received } from "./api.ts";
import { type MillraceProcess, millrace } from "./millrace-process.ts";

const shifted = fileURLToPath(new URL("./shift-clock.mjs", import.meta.url));
const running: MillraceProcess[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.kill()));
});

it("STORE-03: of eight servers started on one SQLite file one runs, seven refuse and say why, and the one goes on", {
  timeout: 300_000,
}, async () => {
  const folder = scratch("shared");
  const servers = await Promise.all(Array.from({ length: 8 }, () => millrace({ data: join(folder.path, "data") })));
  running.push(...servers);
  const outcomes = await Promise.all(
    servers.map((server) =>
      server.start().then(
        () => server,
        (error: Error) => error.message,
      ),
    ),
  );
  const started = outcomes.filter((outcome) => typeof outcome !== "string");
  const refusals = outcomes.filter((outcome) => typeof outcome === "string");
  expect([started.length, refusals.length]).toEqual([1, 7]);
  for (const refusal of refusals) expect(refusal).toMatch(/using|in use|another/i);
  const client = api(started[0] as MillraceProcess);
  await client.createQueue({ name: "q" });
  await client.send("q", [{ body: "still here" }]);
  expect((await client.receive("q", 0)).map(({ body }) => body)).toEqual(["still here"]);
});

async function first(client: Api, queue: string): Promise<Received> {
  const messages = await client.receive(queue, 20);
  expect(messages.length).toBe(1);
  return messages[0] as Received;
}

for (const minutes of [5, -5]) {
  it(`LEASE-08, A13: a node whose clock is ${minutes} minutes off judges leases, delays and due times by the database`, {
    timeout: 300_000,
  }, async () => {
    const databaseUrl = await (await postgres()).fresh();
    const right = await millrace({ databaseUrl });
    await right.start();
    const wrong = await millrace({ databaseUrl, preload: shifted, env: { MILLRACE_TEST_SHIFT_MS: String(minutes * 60_000) } });
    await wrong.start();
    running.push(right, wrong);
    const here = api(right);
    const there = api({ url: wrong.url, apiKey: right.apiKey });
    await here.createQueue({ name: "q", visibilityTimeoutSeconds: 2 });

    for (const [one, other] of [
      [here, there],
      [there, here],
    ] as const) {
      await one.send("q", [{ body: "leased" }]);
      const leased = await first(one, "q");
      const leasedAt = performance.now();
      expect(await other.receive("q", 0)).toEqual([]);
      const again = await first(other, "q");
      const lapsedAfter = performance.now() - leasedAt;
      expect(lapsedAfter).toBeGreaterThan(1_500);
      expect(lapsedAfter).toBeLessThan(4_500);
      expect([again.messageId, again.receiveCount]).toEqual([leased.messageId, 2]);
      expect((await one.ack("q", [leased.receipt])).map(({ ok }) => ok)).toEqual([false]);
      expect((await other.ack("q", [again.receipt])).map(({ ok }) => ok)).toEqual([true]);

      const sentAt = performance.now();
      await one.send("q", [{ body: "later", delaySeconds: 2 }]);
      const delayed = await first(other, "q");
      expect(performance.now() - sentAt).toBeGreaterThan(1_900);
      expect(performance.now() - sentAt).toBeLessThan(4_500);
      await other.ack("q", [delayed.receipt]);
    }
  });
}
