/** A primary that dies under load and a synchronous standby that takes its place, behind one address as failover tools give it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterEach, expect, it } from "vitest";
import { findPostgres, startPostgres } from "../postgres.ts";
import { tcpProxy } from "../tcp-proxy.ts";
import { seed } from "./chance.ts";
import { startCluster, until } from "./cluster.ts";
import { struck } from "./strike.ts";

const ends: (() => Promise<unknown> | undefined)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function ask(url: string, text: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(text).finally(() => client.end());
}

/** The embedded PostgreSQL comes without the program that copies a primary; on CI the test fails rather than not run. */
const lacksCopier = !process.env.CI && !existsSync(join(findPostgres()?.bin ?? "", "pg_basebackup"));

it.skipIf(lacksCopier)(
  "STORE-08, A13: when the primary dies under load and its synchronous standby is promoted, nothing that was answered is lost",
  {
    timeout: 300_000,
  },
  async () => {
    const primary = await startPostgres();
    ends.push(() => primary.stop());
    const database = await primary.fresh();
    const standby = await startPostgres({}, { standbyOf: primary });
    ends.push(() => standby.stop());
    await ask(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await ask(primary.url, "SELECT pg_reload_conf()");
    const proxy = await tcpProxy(primary.port);
    ends.push(() => proxy.close());
    const cluster = await startCluster(proxy.urlOf(database), 2);
    ends.push(() => cluster.end());

    const { violations, answered } = await struck({
      server: cluster.server,
      rounds: 1,
      seed: seed(),
      callsDuring: true,
      // A claim's commit waits for no standby: a promotion may take it back, and the message comes again.
      countsSurvive: false,
      waitForPushes: true,
      async strike() {
        await primary.halt("immediate");
        proxy.lead(standby.port);
        await ask(standby.url, "SELECT pg_promote()");
        for (const { url } of cluster.nodes) await until(async () => (await fetch(`${url}/readyz`)).status === 200);
      },
    });
    expect(violations).toEqual([]);
    expect(answered).toBeGreaterThan(50);
  },
);
