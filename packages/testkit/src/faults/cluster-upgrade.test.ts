/** A cluster is upgraded node by node while it works: an older version's nodes go on beside a newer one's, and can't come back afterwards. */
import { fileURLToPath } from "node:url";
import { diagnose } from "@millrace/server/doctor";
import pg from "pg";
import { afterEach, expect, it } from "vitest";
import { postgres } from "../shared-postgres.ts";
import { api } from "./api.ts";
import { until } from "./cluster.ts";
import { type MillraceProcess, millrace } from "./millrace-process.ts";

const older = { MILLRACE_TEST_OLDER: "1" };
const preload = fileURLToPath(new URL("./older-version.mjs", import.meta.url));
let nodes: MillraceProcess[] = [];
let database: pg.Client | undefined;
afterEach(async () => {
  await Promise.all(nodes.map((node) => node.kill()));
  await database?.end();
});

it("A11, A13, CTRL-09: nodes of two versions share the work while a cluster is upgraded, nothing is lost or doubled, and there is no way back", {
  timeout: 300_000,
}, async () => {
  const databaseUrl = await (await postgres()).fresh();
  const options = { databaseUrl, preload, onSources: true };
  const [a, b] = await Promise.all([millrace(options), millrace(options)]);
  nodes = [a, b];
  const client = new pg.Client(databaseUrl);
  database = client;
  await client.connect();
  const schema = async (): Promise<number> => (await client.query("SELECT max(version) AS n FROM schema_version")).rows[0].n;
  const findings = async (check: string) => (await diagnose(databaseUrl, {}, 10)).findings.filter((finding) => finding.check === check);

  await a.start(older);
  await b.start(older);
  const before = await schema();
  await api(a).createQueue({ name: "work" });
  const through = (node: MillraceProcess) => api({ url: node.url, apiKey: a.apiKey });
  const sent = new Set<string>();
  const acked: string[] = [];
  let up = [a, b];
  let working = true;
  /** Sends through one of the nodes that are up and handles through the next. */
  const work = async (): Promise<void> => {
    for (let turn = 0; working; turn++) {
      const [sender, handler] = [up[turn % up.length], up[(turn + 1) % up.length]] as [MillraceProcess, MillraceProcess];
      for (const { messageId } of await through(sender).send("work", [{ body: `${turn}` }])) sent.add(messageId);
      const got = await through(handler).receive("work", 0);
      if (got.length === 0) continue;
      const results = await through(sender).ack(
        "work",
        got.map(({ receipt }) => receipt),
      );
      results.forEach(({ ok }, i) => {
        if (ok) acked.push((got[i] as (typeof got)[number]).messageId);
      });
    }
  };
  const failed = work().then(
    () => null,
    (error: unknown) => error,
  );
  const more = (count: number) => {
    const from = acked.length;
    return until(async () => {
      if (!working) throw await failed;
      return acked.length >= from + count;
    });
  };
  failed.then(() => {
    working = false;
  });

  await more(20);
  up = [a];
  await more(3);
  await b.kill("SIGTERM");
  await b.start();
  expect(await schema()).toBe(before + 1);
  up = [a, b];
  await more(30);
  // As soon as the new node has said that it lives.
  await until(async () => (await findings("versions")).length === 1);
  expect(await findings("versions")).toMatchObject([{ level: "poor", found: expect.stringContaining("0.0.1-older") }]);
  expect(await findings("schema")).toMatchObject([{ level: "good", found: `version ${before + 1}` }]);
  await until(async () => {
    const owners = (await client.query("SELECT count(*)::int AS n FROM slot GROUP BY node_id")).rows;
    return owners.length === 2 && owners.every(({ n }) => n === 128);
  });

  up = [b];
  await more(3);
  await a.kill("SIGTERM");
  await expect(a.start(older)).rejects.toThrow(/Run the newer version of Millrace/);
  await a.start();
  up = [a, b];
  await more(20);
  expect(await findings("versions")).toEqual([]);

  working = false;
  expect(await failed).toBeNull();
  for (let got = await through(b).receive("work", 0); got.length > 0; got = await through(b).receive("work", 0)) {
    await through(b).ack(
      "work",
      got.map(({ receipt }) => receipt),
    );
    acked.push(...got.map(({ messageId }) => messageId));
  }
  expect(acked.length).toBe(new Set(acked).size);
  expect(new Set(acked)).toEqual(sent);
});
