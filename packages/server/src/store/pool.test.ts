import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { newQueue } from "./new-queue.suite.ts";
import { openStore } from "./open.ts";

it("A10: a node holds no more PostgreSQL connections than poolSize says, however much it is asked at once", async () => {
  const url = await (await postgres()).fresh();
  const watcher = new pg.Client({ connectionString: url });
  await watcher.connect();
  const held = async (): Promise<number> => {
    const text = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    return ((await watcher.query<{ n: number }>(text)).rows[0] as { n: number }).n;
  };
  for (const poolSize of [3, 10]) {
    const store = await openStore({ url, clock: createClock(), poolSize });
    const asked = Promise.all([
      ...Array.from({ length: 40 }, () => store.run("findOrganization", "nobody")),
      ...Array.from({ length: 40 }, (_, i) => store.claim({ queueNo: i + 1, batchSize: 1, batches: 1, leaseMs: 1000 })),
    ]);
    const during = await held();
    await asked;
    const after = await held();
    expect(after).toBeGreaterThanOrEqual(2);
    expect(Math.max(during, after)).toBeLessThanOrEqual(poolSize);
    await store.close();
  }
  await watcher.end();
});

it("A13, STORE-06: calls that wait for somebody's lock keep no node from saying that it lives, and no message from moving", async () => {
  const url = await (await postgres()).fresh();
  const store = await openStore({ url, clock: createClock(), poolSize: 4 });
  const organization = await store.run("createOrganization", { id: "o", name: "acme" });
  const project = await store.run("createProject", { id: "p", environmentId: "e", name: "shop", organizationNo: organization.no });
  const somebody = new pg.Client(url);
  await somebody.connect();
  await somebody.query("BEGIN; UPDATE queue_counter SET last = last");
  const making = Promise.allSettled(
    Array.from({ length: 5 }, (_, i) => store.once(null, "createQueue", newQueue(project.no, `q${i}`, "default"))),
  );
  const beat = { id: "a", name: "a:7400", version: "1", wallMs: 0, patienceMs: 10_000, first: true };
  expect((await store.run("beat", beat)).slots).toHaveLength(256);
  expect(await store.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: 1000 })).toMatchObject({ batches: [] });
  await somebody.query("COMMIT");
  await making;
  await somebody.end();
  await store.close();
});
