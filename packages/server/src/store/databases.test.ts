/** Queues on several real PostgreSQL databases, through the store that its callers see. */
import { postgres } from "@millrace/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { newQueue } from "./new-queue.suite.ts";
import { openStore } from "./open.ts";
import { settlePlaced } from "./placing.ts";
import type { OpenStore } from "./store.ts";
import type { QueueSettings, SendRow } from "./types.ts";

const clock = createClock();
const text = (body: string): Uint8Array => new TextEncoder().encode(body);

/** An installation on a default database and others, with a project in it. */
async function install(names: readonly string[]) {
  const server = await postgres();
  const url = await server.fresh();
  const databases: Record<string, string> = {};
  for (const name of names) databases[name] = await server.fresh();
  const open = (more = databases): Promise<OpenStore> => openStore({ url, databases: more, clock });
  const store = await open();
  const organization = await store.run("createOrganization", { id: "o-1", name: "acme" });
  const project = await store.run("createProject", { id: "p-1", environmentId: "e-1", name: "shop", organizationNo: organization.no });
  return { server, url, databases, open, store, projectNo: project.no };
}

const message = (queueNo: number, body: string): SendRow => ({
  queueNo,
  body: text(body),
  attributes: null,
  meta: null,
  groupKey: null,
  dedupId: null,
  delayMs: null,
});

describe("queues on several databases", () => {
  let world: Awaited<ReturnType<typeof install>>;
  let store: OpenStore;
  let projectNo: number;
  beforeAll(async () => {
    world = await install(["eu", "us"]);
    ({ store, projectNo } = world);
  });
  afterAll(() => store.close());

  it("A14: a queue is made on the database it names, else on the default one, and says so wherever it is read", async () => {
    const { result: here } = await store.once(null, "createQueue", newQueue(projectNo, "here"));
    const { result: there } = await store.once(null, "createQueue", newQueue(projectNo, "there", "eu"));
    expect([here.database, there.database]).toEqual(["default", "eu"]);
    for (const reference of ["there", there.id, there.resourceName])
      expect(await store.run("findQueue", projectNo, "production", reference)).toMatchObject({ no: there.no, database: "eu" });
    expect(await store.run("getQueue", there.no)).toMatchObject({ name: "there", database: "eu" });
    expect(await store.run("updateQueue", there.no, { delayMs: 0 })).toMatchObject({ database: "eu" });
    await expect(store.once(null, "createQueue", newQueue(projectNo, "nowhere", "mars"))).rejects.toMatchObject({
      code: "invalid_request",
      details: { path: "database", bound: "one of default, eu, us" },
    });
  });

  it("A14: messages go to their queue's database and come from there, and no two databases give out one number", async () => {
    const queues = await Promise.all(
      ["default", "eu", "us"].map(
        async (database) => (await store.once(null, "createQueue", newQueue(projectNo, `work-${database}`, database))).result,
      ),
    );
    // One call with messages of all of them.
    const sent = await store.send(queues.map(({ no, database }) => message(no, database)));
    const ids = sent.map((one) => ("refused" in one ? "" : one.messageId));
    expect(new Set(ids).size).toBe(3);
    expect(new Set(sent.map((one) => ("refused" in one ? 0 : one.seq))).size).toBe(3);
    const rows = [];
    for (const [i, queue] of queues.entries()) {
      const { batches } = await store.claim({ queueNo: queue.no, batchSize: 10, batches: 1, leaseMs: 30_000 });
      const [claimed] = batches.flat();
      expect([new TextDecoder().decode(claimed?.body), claimed?.messageId]).toEqual([queue.database, ids[i]]);
      rows.push({ queueNo: queue.no, seq: claimed?.seq ?? 0, receipt: claimed?.receipt ?? 0, outcome: "ack" as const });
    }
    expect(await store.settle(rows.reverse())).toEqual([{ result: "acked" }, { result: "acked" }, { result: "acked" }]);
  });

  it("A14: a name is one over all databases, whoever makes the queues at once", async () => {
    const outcomes = await Promise.allSettled(
      ["default", "eu", "us", "eu", "default", "us"].map((database) =>
        store.once(null, "createQueue", newQueue(projectNo, "only", database)),
      ),
    );
    const made = outcomes.flatMap((each) => (each.status === "fulfilled" ? [each.value.result] : []));
    expect(made).toHaveLength(1);
    for (const each of outcomes) if (each.status === "rejected") expect(each.reason).toMatchObject({ code: "queue_exists" });
    expect(await store.run("findQueue", projectNo, "production", "only")).toMatchObject({ no: made[0]?.no });
  });

  it("A14, A3: lists of queues merge over databases in pages that neither repeat nor skip while queues come and go", async () => {
    const organizationNo = (await store.run("findOrganization", "acme"))?.no ?? 0;
    const made = await store.run("createProject", { id: "p-list", environmentId: "e-list", name: "list", organizationNo });
    // Bytes order these otherwise than most locales do.
    const names = ["B", "a", "_x", "C.1", "b", "Z", "c-2", "A", "9"];
    for (const [i, name] of names.entries()) await store.once(null, "createQueue", newQueue(made.no, name, ["default", "eu", "us"][i % 3]));
    const listed: string[] = [];
    for (let after: string | null = null; ; ) {
      const page: { name: string; database: string }[] = await store.run("listQueues", made.no, "production", after, 2);
      listed.push(...page.map(({ name, database }) => `${name}@${database}`));
      after = page.at(-1)?.name ?? null;
      if (page.length < 2) break;
      // A page that was read is not moved by what comes before it.
      if (listed.length === 4) await store.once(null, "createQueue", newQueue(made.no, "0", "us"));
    }
    const expected = names.map((name, i) => `${name}@${["default", "eu", "us"][i % 3]}`).sort();
    expect(listed).toEqual(expected);
  });

  it("A14: dead letters stay on their database and go back from there; a dead-letter queue elsewhere is refused by both names", async () => {
    const make = async (name: string, database: string, settings: Partial<QueueSettings> = {}) =>
      (await store.once(null, "createQueue", newQueue(projectNo, name, database, settings))).result;
    const letters = await make("letters", "eu");
    const link = { maxAttempts: 1, deadLetter: "queue" as const, deadLetterNo: letters.no };
    const source = await make("source", "eu", link);
    const refusal = {
      code: "invalid_request",
      details: { path: "redrivePolicy.deadLetterQueueId", bound: "a queue on the database us, as its source is", got: "one on eu" },
    };
    await expect(make("apart", "us", link)).rejects.toMatchObject(refusal);
    const apart = await make("apart", "us");
    await expect(store.run("updateQueue", apart.no, link)).rejects.toMatchObject(refusal);

    await store.send([message(source.no, "once")]);
    const { batches } = await store.claim({ queueNo: source.no, batchSize: 1, batches: 1, leaseMs: 30_000 });
    const { seq = 0, receipt = 0 } = batches.flat()[0] ?? {};
    expect(await store.settle([{ queueNo: source.no, seq, receipt, outcome: "retry", delayMs: 0 }])).toEqual([{ result: "dead" }]);
    expect((await store.run("stats", letters.no)).ready).toBe(1);
    await store.once(null, "startRedrive", { id: "r-1", queueNo: letters.no, messageIds: null, ratePerSecond: null });
    const eu = store.databases.find(({ name }) => name === "eu");
    while ((await eu?.store.run("stepRedrive")) === 0);
    expect(await store.run("getRedrive", letters.no, "r-1")).toMatchObject({ state: "done", moved: 1 });
    expect([(await store.run("stats", letters.no)).ready, (await store.run("stats", source.no)).ready]).toEqual([0, 1]);
    await expect(store.run("deleteQueue", letters.no)).rejects.toMatchObject({ code: "queue_in_use" });
    expect(await store.run("findQueue", projectNo, "production", "letters")).toMatchObject({ no: letters.no });
    await store.run("deleteQueue", source.no);
    await store.run("deleteQueue", letters.no);
    expect(await store.run("findQueue", projectNo, "production", "letters")).toBeNull();
    // The name is free again, on any database.
    expect((await make("letters", "us")).database).toBe("us");
  });

  it("A14, Q12: a creation under a key happens once, whatever became of the first try, and its answer outlives the queue", async () => {
    const key = { scope: "create", key: "k-1", hash: "h-1" };
    const asked = newQueue(projectNo, "keyed", "eu");
    const first = await store.once(key, "createQueue", asked);
    expect(first.replayed).toBe(false);
    const second = await store.once(key, "createQueue", newQueue(projectNo, "keyed", "eu"));
    expect(second).toEqual({ result: first.result, replayed: true });
    expect(await store.run("madeQueue", key)).toMatchObject({ no: first.result.no, database: "eu" });
    await expect(store.once({ ...key, hash: "other" }, "createQueue", newQueue(projectNo, "keyed", "us"))).rejects.toMatchObject({
      code: "idempotency_conflict",
    });
    await store.run("deleteQueue", first.result.no);
    expect((await store.once(key, "createQueue", newQueue(projectNo, "keyed", "eu"))).result).toEqual(first.result);
    expect(await store.run("findQueue", projectNo, "production", "keyed")).toBeNull();
  });

  it("A14, Q12: a creation that its database refused leaves its name and its key free", async () => {
    const key = { scope: "create", key: "k-2", hash: "h-2" };
    const wrong = { retryBackoffMinMs: 9_000, retryBackoffMaxMs: 1_000 };
    await expect(store.once(key, "createQueue", newQueue(projectNo, "refused", "eu", wrong))).rejects.toMatchObject({
      code: "invalid_request",
    });
    const { result } = await store.once({ ...key, hash: "h-3" }, "createQueue", newQueue(projectNo, "refused", "us"));
    expect(result.database).toBe("us");
  });

  it("A14: what a node that died left half done is ended by whoever comes next, either way", async () => {
    const [home] = store.databases;
    const eu = store.databases.find(({ name }) => name === "eu");
    if (home === undefined || eu === undefined) throw new Error("there are three databases");
    const key = { scope: "create", key: "k-4", hash: "h-4" };
    // Died before its database heard of it: repeated under its key it is made, once.
    const asked = newQueue(projectNo, "half", "eu");
    const { result: reserved } = await home.store.once(key, "reserveQueue", eu.no, asked, key);
    expect(await store.run("findQueue", projectNo, "production", "half")).toBeNull();
    await expect(store.once(null, "createQueue", newQueue(projectNo, "half", "us"))).rejects.toMatchObject({ code: "queue_exists" });
    // The door draws another id for each try: the one that was reserved is the queue's.
    const { result: again } = await store.once(key, "createQueue", newQueue(projectNo, "half", "eu"));
    expect(again).toMatchObject({ no: reserved.no, id: asked.id, resourceName: asked.resourceName, database: "eu" });
    for (const reference of ["half", again.id, again.resourceName])
      expect(await store.run("findQueue", projectNo, "production", reference)).toMatchObject({ no: reserved.no });

    // Died when the queue was made, but not known to be: it stays. Died before: its name is free, and nobody makes it any more.
    const made = newQueue(projectNo, "made", "eu");
    const { result: one } = await home.store.once(null, "reserveQueue", eu.no, made, null);
    const owners = await home.store.run("ownersOf", made);
    await eu.store.run("makePlaced", one.no, made, owners);
    const never = newQueue(projectNo, "never", "eu");
    const { result: other } = await home.store.once(null, "reserveQueue", eu.no, never, null);
    for (const { no } of await store.run("openPlacedQueues", 0, 10)) await settlePlaced(store, store, no);
    expect(await store.run("openPlacedQueues", 0, 10)).toEqual([]);
    expect(await store.run("findQueue", projectNo, "production", "made")).toMatchObject({ no: one.no });
    expect((await store.once(null, "createQueue", newQueue(projectNo, "never", "us"))).result.database).toBe("us");
    expect(await eu.store.run("makePlaced", other.no, never, owners)).toBeNull();

    // Died in a deletion.
    await home.store.run("openPlaced", one.no);
    await eu.store.run("deleteQueue", one.no);
    for (const { no } of await store.run("openPlacedQueues", 0, 10)) await settlePlaced(store, store, no);
    expect((await store.once(null, "createQueue", newQueue(projectNo, "made"))).result.database).toBe("default");
  });

  it("A14, A5: a project with queues on any database is not deleted", async () => {
    const organizationNo = (await store.run("findOrganization", "acme"))?.no ?? 0;
    const make = (id: string) => store.run("createProject", { id, environmentId: `e-${id}`, name: "short-lived", organizationNo });
    const first = await make("p-2");
    const { result } = await store.once(null, "createQueue", newQueue(first.no, "left", "us"));
    await expect(store.run("deleteProject", first.no)).rejects.toMatchObject({ code: "not_empty" });
    await store.run("deleteQueue", result.no);
    await store.run("deleteProject", first.no);
    // Another project of the same name has queues there too.
    const second = await make("p-3");
    expect((await store.once(null, "createQueue", newQueue(second.no, "left", "us"))).result.database).toBe("us");
  });
});
