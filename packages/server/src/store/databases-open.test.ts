/** What keeps several databases from being used together, seen at the start: each mistake by its name, before a queue seems lost. */
import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { newQueue } from "./new-queue.suite.ts";
import { openStore } from "./open.ts";

const clock = createClock();

/** Starts on these databases and stops again; answers the names that it was on. */
async function start(url: string, databases: Record<string, string>): Promise<string[]> {
  const store = await openStore({ url, databases, clock });
  const names = store.databases.map(({ name }) => name);
  await store.close();
  return names;
}

it("A14, A10: a start names the database that is missing, mistaken or exchanged, and takes the right ones again", async () => {
  const server = await postgres();
  const [url, eu, us, other] = await Promise.all([server.fresh(), server.fresh(), server.fresh(), server.fresh()]);
  const store = await openStore({ url, databases: { eu, us }, clock });
  const organization = await store.run("createOrganization", { id: "o-1", name: "acme" });
  const project = await store.run("createProject", { id: "p-1", environmentId: "e-1", name: "shop", organizationNo: organization.no });
  await store.once(null, "createQueue", newQueue(project.no, "orders", "eu"));
  await store.close();

  await expect(start(url, { us })).rejects.toThrow("databases: eu is not configured, and 1 queue lives on it: acme/shop/orders.");
  await expect(start(url, { eu: us, us: eu })).rejects.toThrow("databases.eu: It is the database that was named us.");
  await expect(start(url, { eu: other, us })).rejects.toThrow("databases.eu: It is empty, and not the database that had this name before.");
  await expect(start(url, { eu, us, here: url })).rejects.toThrow("databases.here: It is the default database of an installation.");
  await expect(start(eu, {})).rejects.toThrow("The default database can't be one that queues were placed on");
  await expect(start(other, { eu })).rejects.toThrow("databases.eu: It is the database that was named eu by another installation.");
  await expect(openStore({ url: "/tmp/never-made.db", databases: { eu }, clock })).rejects.toThrow("further databases need PostgreSQL");
  // A name without queues may go, and come back; what was refused changed nothing.
  expect(await start(url, { eu })).toEqual(["default", "eu"]);
  expect(await start(url, { us, eu })).toEqual(["default", "eu", "us"]);
});

it("A14: a node that has not heard of a database yet refuses its queues by its name, and knows that their names are taken", async () => {
  const server = await postgres();
  const [url, eu, us] = await Promise.all([server.fresh(), server.fresh(), server.fresh()]);
  const nodes = [
    await openStore({ url, clock }),
    await openStore({ url, databases: { us }, clock }),
    await openStore({ url, databases: { eu }, clock }),
  ] as const;
  const [alone, elsewhere, knows] = nodes;
  const organization = await alone.run("createOrganization", { id: "o-1", name: "acme" });
  const { no } = await alone.run("createProject", { id: "p-1", environmentId: "e-1", name: "shop", organizationNo: organization.no });
  const made = (await knows.once(null, "createQueue", newQueue(no, "orders", "eu"))).result;
  for (const store of [alone, elsewhere]) {
    for (const reference of ["orders", made.id])
      await expect(store.run("findQueue", no, "production", reference)).rejects.toMatchObject({
        code: "unavailable",
        message: "The queue lives on the database eu, which is not in this server's configuration.",
      });
    expect(await store.run("findQueue", no, "production", "others")).toBeNull();
    await expect(store.once(null, "createQueue", newQueue(no, "orders", "default"))).rejects.toMatchObject({ code: "queue_exists" });
  }
  await Promise.all(nodes.map((store) => store.close()));
});

it("A14, A12: a database that was restored from an older backup than the other gives out no number and keeps no name of what the other has", async () => {
  const server = await postgres();
  const [url, eu] = await Promise.all([server.fresh(), server.fresh()]);
  const open = () => openStore({ url, databases: { eu }, clock });
  const asked = async (database: string, text: string): Promise<void> => {
    const client = new pg.Client({ connectionString: database });
    await client.connect();
    await client.query(text);
    await client.end();
  };
  let store = await open();
  const organization = await store.run("createOrganization", { id: "o-1", name: "acme" });
  const { no } = await store.run("createProject", { id: "p-1", environmentId: "e-1", name: "shop", organizationNo: organization.no });
  const first = (await store.once(null, "createQueue", newQueue(no, "first", "eu"))).result;
  await store.once(null, "createQueue", newQueue(no, "second", "eu"));
  await store.close();

  // The default one knows nothing of the second queue any more, the other one nothing of the first.
  await asked(url, "DELETE FROM placed_queue WHERE name = 'second'; UPDATE placed_database SET last = 0");
  await asked(eu, "DELETE FROM queue WHERE name = 'first'");
  store = await open();
  expect(await store.run("findQueue", no, "production", "first")).toBeNull();
  const third = newQueue(no, "third", "eu");
  expect((await store.once(null, "createQueue", third)).result).toMatchObject({ id: third.id, name: "third" });
  const again = (await store.once(null, "createQueue", newQueue(no, "first", "eu"))).result;
  expect(again.no).not.toBe(first.no);
  expect(await store.run("findQueue", no, "production", "first")).toMatchObject({ no: again.no, id: again.id });
  await store.close();
});
