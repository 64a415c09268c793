import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import type { Examination } from "../store/examination-types.ts";
import { examine } from "../store/examine.ts";
import { openStore } from "../store/open.ts";
import { diagnose } from "./doctor.ts";
import { createNode } from "./node.ts";
import { judge } from "./rules.ts";

const well: Examination = {
  serverVersion: 150_004,
  settings: { autovacuum: "on", autovacuum_naptime: "1", fsync: "on", full_page_writes: "on", max_connections: "100" },
  schema: 6,
  nodes: [
    { id: "a", name: "a:7400", version: "1.0.0", skewMs: 3, startedAt: 0, seenAgoMs: 500, slots: 128 },
    { id: "b", name: "b:7400", version: "1.0.0", skewMs: -2, startedAt: 0, seenAgoMs: 900, slots: 128 },
  ],
  joined: [],
  itself: null,
  orphanedSlots: 0,
  tables: [{ name: "message", bytes: 1, live: 10, dead: 5, vacuumedAgoMs: 1_000 }],
  oldestTransaction: null,
  connections: { used: 20, elsewhere: 0, most: 100 },
  skewMs: 1,
};
const expected = { schema: 6, poolSize: 10 };
const bad = (change: Partial<Examination>) =>
  judge({ ...well, ...change }, expected)
    .filter(({ level }) => level !== "good")
    .map(({ level, check }) => `${level} ${check}`);

it("A17: a cluster that is well is told so, check by check", () => {
  expect(bad({})).toEqual([]);
  expect(judge(well, expected).map(({ check }) => check)).toEqual([
    "server",
    "durability",
    "schema",
    "nodes",
    "slots",
    "clocks",
    "vacuum",
    "connections",
  ]);
});

it("A17: what is not well is told, the worst first, with what to do about it", () => {
  const [a, b] = well.nodes as [(typeof well.nodes)[0], (typeof well.nodes)[0]];
  expect(bad({ nodes: [a, { ...b, version: "1.1.0", slots: 100 }] })).toEqual(["poor versions", "poor slots"]);
  expect(bad({ nodes: [a, { ...b, seenAgoMs: 60_000 }], orphanedSlots: 128 })).toEqual(["bad slots", "poor nodes"]);
  expect(bad({ nodes: [{ ...a, skewMs: 120_000, slots: 256 }] })).toEqual(["bad clocks"]);
  expect(bad({ nodes: [] })).toEqual(["poor nodes"]);
  expect(bad({ schema: 7 })).toEqual(["bad schema"]);
  expect(bad({ schema: 5 })).toEqual(["poor schema"]);
  expect(bad({ settings: { ...well.settings, fsync: "off", autovacuum_naptime: "60" } })).toEqual(["bad durability", "poor vacuum"]);
  expect(bad({ settings: { ...well.settings, autovacuum: "off" } })).toEqual(["bad vacuum"]);
  expect(bad({ oldestTransaction: { ms: 700_000, by: "x" } })).toEqual(["bad vacuum"]);
  expect(bad({ tables: [{ name: "message", bytes: 1, live: 0, dead: 200_000, vacuumedAgoMs: null }] })).toEqual(["poor vacuum"]);
  expect(bad({ connections: { used: 20, elsewhere: 0, most: 20 } })).toEqual(["poor connections"]);
  expect(bad({ connections: { used: 40, elsewhere: 20, most: 43 } })).toEqual([]);
  expect(bad({ connections: { used: 40, elsewhere: 21, most: 43 } })).toEqual(["poor connections"]);
  for (const { level, advice, check } of judge({ ...well, schema: 7, nodes: [] }, expected))
    if (level !== "good") expect([check, typeof advice]).toEqual([check, "string"]);
});

it("A17: a real database is looked at without being changed, before its first start and with a node and an old transaction", async () => {
  const url = await (await postgres()).fresh();
  const before = await diagnose(url, {}, 10);
  expect(before.nodes).toEqual([]);
  expect(before.findings.map(({ check, found }) => `${check}: ${found}`)).toContain("schema: none yet");

  const store = await openStore({ url, clock: createClock() });
  const node = createNode({
    store,
    clock: createClock(),
    monotonic: () => performance.now(),
    id: "one",
    name: "here:7400",
    version: "1.2.3",
    log: { warn: () => {} },
  });
  await node.start();
  const idler = new pg.Client(url);
  try {
    await idler.connect();
    await idler.query("BEGIN; SELECT 1");
    const { findings, nodes } = await diagnose(url, {}, 10);
    expect(nodes).toMatchObject([{ name: "here:7400", version: "1.2.3", slots: 256 }]);
    const found = findings.map(({ check, found }) => `${check}: ${found}`);
    expect(found).toContain("nodes: 1 running");
    expect(found).toContain("slots: 256 a node");
    expect(findings.find(({ check }) => check === "schema")?.level).toBe("good");
  } finally {
    await idler.end();
    await node.leave();
    await store.close();
  }
});

it("A14, A17: every configured database is looked at by its name, and one that can't be reached is a bad finding", async () => {
  const server = await postgres();
  const [url, eu] = await Promise.all([server.fresh(), server.fresh()]);
  const store = await openStore({ url, databases: { eu }, clock: createClock() });
  await store.close();
  const { findings } = await diagnose(url, { eu, us: "postgres://127.0.0.1:1/nothing", uk: `${url}_not_there` }, 10);
  const of = (name: string) => findings.filter(({ database }) => database === name);
  for (const name of ["default", "eu"]) expect(of(name).find(({ check }) => check === "schema")?.level).toBe("good");
  expect(of("us")).toMatchObject([{ level: "bad", check: "server", found: expect.stringMatching(/can't be reached: .*ECONNREFUSED/) }]);
  expect(of("uk")).toMatchObject([{ level: "bad", check: "server", found: expect.stringMatching(/_not_there" does not exist/) }]);
  await expect(diagnose("postgres://127.0.0.1:1/nothing", {}, 10)).rejects.toThrow(/The database can't be reached: .*ECONNREFUSED/);
  const forgotten = await diagnose(url, {}, 10);
  expect(forgotten.findings).toContainEqual(expect.objectContaining({ level: "bad", check: "databases", found: "eu is not configured" }));
});

it("A14, A17: an address that leads to another database than its name means is a bad finding, as a server would not start with it", async () => {
  const server = await postgres();
  const [url, eu, us, empty] = await Promise.all([server.fresh(), server.fresh(), server.fresh(), server.fresh()]);
  const store = await openStore({ url, databases: { eu, us }, clock: createClock() });
  await store.close();
  const mistaken = async (at: string, databases: Record<string, string>) =>
    (await diagnose(at, databases, 10)).findings
      .filter(({ check, found }) => check === "databases" && !found.endsWith("is not configured"))
      .map(({ level, database, found }) => `${level} ${database}: ${found}`);
  expect(await mistaken(url, { eu, us })).toEqual([]);
  expect(await mistaken(url, { eu, us, new: empty })).toEqual([]);
  expect(await mistaken(url, { eu: us, us: url })).toEqual([
    "bad eu: it is the database that was named us",
    "bad us: it is the default database of an installation",
  ]);
  expect(await mistaken(eu, {})).toEqual(["bad default: it is the database that was named eu"]);
});

it("STORE-05, A17: a long transaction on another database of the same server is no finding: it holds no vacuum back here", async () => {
  const server = await postgres();
  const [url, other] = await Promise.all([server.fresh(), server.fresh()]);
  const idler = new pg.Client(other);
  await idler.connect();
  await idler.query("BEGIN; SELECT 1");
  const { oldestTransaction, connections } = await examine(url);
  expect(oldestTransaction).toBeNull();
  expect(connections.elsewhere).toBeGreaterThan(0);
  await idler.end();
});

it("A14, A17: a node that runs without one of the databases is a bad finding, for its duties there are nobody's", async () => {
  const server = await postgres();
  const [url, eu] = await Promise.all([server.fresh(), server.fresh()]);
  const store = await openStore({ url, databases: { eu }, clock: createClock() });
  const named = (name: string) => ({ id: name, name, clock: createClock(), monotonic: () => performance.now() });
  const rest = { version: "1", log: { warn: () => {} } };
  const [home, other] = store.databases;
  const nodes = [
    createNode({ ...named("whole"), ...rest, store: home?.store ?? store }),
    createNode({ ...named("whole"), ...rest, store: other?.store ?? store }),
    createNode({ ...named("part"), ...rest, store: home?.store ?? store }),
  ];
  try {
    for (const node of nodes) await node.start();
    const { findings } = await diagnose(url, { eu }, 10);
    expect(findings.filter(({ check, level }) => check === "nodes" && level === "bad")).toMatchObject([
      { database: "eu", found: "part does not take part" },
    ]);
  } finally {
    for (const node of nodes) await node.leave();
    await store.close();
  }
});
