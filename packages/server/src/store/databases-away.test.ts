/** A database beside the default one that goes and comes back, on a PostgreSQL of its own. */
import { type PostgresServer, postgres, startPostgres } from "@millrace/testkit";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { newQueue } from "./new-queue.suite.ts";
import { openStore } from "./open.ts";
import type { OpenStore } from "./store.ts";

let beside: PostgresServer;
let url: string;
let eu: string;
beforeAll(async () => {
  beside = await startPostgres();
  [url, eu] = await Promise.all([(await postgres()).fresh(), beside.fresh()]);
}, 60_000);
afterAll(() => beside.stop());

const open = (): Promise<OpenStore> => openStore({ url, databases: { eu }, clock: createClock() });
const AWAY = { code: "unavailable", message: "The database eu can't be reached. Try again shortly." };
const send = (store: OpenStore, queueNo: number) =>
  store.send([{ queueNo, body: new Uint8Array([1]), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null }]);
/** Asks again until the answer is no refusal; the test's own deadline bounds it. */
async function once<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

it("A14, A13: what is asked of a database that is away is refused by its name, the others work on, and it is used again once it answers", {
  timeout: 60_000,
}, async () => {
  const store = await open();
  const organization = await store.run("createOrganization", { id: "o-1", name: "acme" });
  const project = await store.run("createProject", { id: "p-1", environmentId: "e-1", name: "shop", organizationNo: organization.no });
  const make = async (name: string, database: string): Promise<number> =>
    (await store.once(null, "createQueue", newQueue(project.no, name, database))).result.no;
  const here = await make("here", "default");
  const there = await make("there", "eu");
  await send(store, there);

  await beside.halt("immediate");
  for (const refused of [
    () => send(store, there),
    () => store.claim({ queueNo: there, batchSize: 1, batches: 1, leaseMs: null }),
    () => store.settle([{ queueNo: there, seq: 1, receipt: 1, outcome: "ack" as const }]),
    () => store.run("stats", there),
    () => store.run("listQueues", project.no, "production", null, 10),
    () => store.run("findQueue", project.no, "production", "there"),
    () => make("more", "eu"),
  ])
    await expect(refused()).rejects.toMatchObject(AWAY);
  // Nothing was reserved for what could not be made.
  expect(await store.run("findPlaced", project.no, "production", "more")).toBeNull();
  await send(store, here);
  expect((await store.claim({ queueNo: here, batchSize: 1, batches: 1, leaseMs: null })).batches.flat()).toHaveLength(1);
  expect(await store.run("servingVersion")).toBeGreaterThanOrEqual(0);
  expect(await store.run("sealedUnder")).toEqual([]);

  // A server that starts meanwhile has everything but that one.
  const late = await open();
  expect(late.databases.map(({ name, opened }) => [name, opened])).toEqual([
    ["default", true],
    ["eu", false],
  ]);
  expect(await late.run("activeSubscriptions", 0, 10)).toEqual({ lanes: [], next: null });
  await expect(late.run("stats", there)).rejects.toMatchObject(AWAY);
  await send(late, here);

  await beside.resume();
  for (const each of [store, late]) {
    expect((await once(() => each.run("stats", there))).ready).toBe(1);
    expect(each.databases.every(({ opened }) => opened)).toBe(true);
  }
  const { batches } = await late.claim({ queueNo: there, batchSize: 1, batches: 1, leaseMs: null });
  const [message] = batches.flat();
  const done = { queueNo: there, seq: message?.seq ?? 0, receipt: message?.receipt ?? 0, outcome: "ack" as const };
  expect(await store.settle([done])).toEqual([{ result: "acked" }]);
  await store.close();
  await late.close();
});

it("A14, STORE-04: a database whose disk is full is not away: it is asked what needs no room", async () => {
  const store = await open();
  const organization = await store.run("createOrganization", { id: "o-2", name: "full" });
  const project = await store.run("createProject", { id: "p-2", environmentId: "e-2", name: "full", organizationNo: organization.no });
  const { no } = (await store.once(null, "createQueue", newQueue(project.no, "full", "eu"))).result;
  await send(store, no);
  const client = new pg.Client(eu);
  await client.connect();
  await client.query(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $do$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $do$`);
  await client.query("CREATE TRIGGER full_disk BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION full_disk()");
  await expect(store.once(null, "createQueue", newQueue(project.no, "more", "eu"))).rejects.toMatchObject({ message: "The disk is full." });
  expect((await store.claim({ queueNo: no, batchSize: 1, batches: 1, leaseMs: null })).batches.flat()).toHaveLength(1);
  await client.query("DROP TRIGGER full_disk ON queue");
  await client.end();
  await store.close();
});
