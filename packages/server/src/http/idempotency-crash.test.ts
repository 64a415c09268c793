import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { postgres, scratch } from "@millrace/testkit";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openStore } from "../store/open.ts";
import { openDoor } from "./door.suite.ts";

const here = fileURLToPath(new URL("./", import.meta.url));
/** Creates organizations under keys, one after the other, and says after each that it was answered. */
const program = (url: string): string => `
  import { createClock } from "${here}../clock.ts";
  import { openStore } from "${here}../store/open.ts";
  const store = await openStore({ url: ${JSON.stringify(url)}, clock: createClock() });
  for (let i = 0; i < 1e6; i += 1) {
    await store.once({ scope: "s", key: "k" + i, hash: "h" }, "createOrganization", { id: "id-" + i, name: "o-" + i });
    process.stdout.write(i + "\\n");
  }
`;

describe("a process that dies with an idempotency key in hand", () => {
  it("IDEM-04, Q12: after kill -9 every key is with its effect or neither is, and each retry succeeds at once (SQLite)", async () => {
    const folder = scratch("once");
    const url = join(folder.path, "millrace.db");
    let answered = -1;
    for (let round = 0; round < 3; round += 1) {
      const arguments_ = ["--import", "tsx", "--conditions=@millrace/source", "--input-type=module", "--eval", program(url)];
      const child = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "inherit"], cwd: here });
      let text = "";
      child.stdout.setEncoding("utf8");
      const target = answered + 40 + round * 7;
      for await (const chunk of child.stdout) {
        text += chunk;
        answered = Number(text.trim().split("\n").at(-1));
        if (answered >= target) break;
      }
      const gone = child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : once(child, "exit");
      child.kill("SIGKILL");
      await gone;
      expect(answered).toBeGreaterThanOrEqual(target);
      const store = await openStore({ url, clock: createClock() });
      for (let i = 0; i <= answered + 5; i += 1) {
        const { result, replayed } = await store.once({ scope: "s", key: `k${i}`, hash: "h" }, "createOrganization", {
          id: `retry-${round}-${i}`,
          name: `o-${i}`,
        });
        expect(result.name).toBe(`o-${i}`);
        if (i <= answered) expect(replayed).toBe(true);
      }
      answered += 5;
      await store.close();
    }
    folder.remove();
  });

  it("IDEM-04, Q12: a request that waits for another node's key goes on as soon as that node's connection dies (PostgreSQL)", async () => {
    const url = await (await postgres()).fresh();
    const door = await openDoor("postgres", { url });
    await door.shop("/queues", { json: { name: "q" } });
    const send = () => door.shop("/queues/q/messages", { json: { messages: [{ body: "a" }] }, headers: { "idempotency-key": "held" } });
    const other = new pg.Client({ connectionString: url });
    other.on("error", () => {});
    await other.connect();
    await other.query("BEGIN");
    await other.query("INSERT INTO idempotency (scope, key, hash, answer, until) VALUES ($1, 'held', 'x', NULL, $2)", [
      "SendMessages /v1/organizations/acme/projects/shop/queues/q/messages",
      Date.now() + 1e9,
    ]);
    const { rows } = await other.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const waiting = send();
    const watcher = new pg.Client({ connectionString: url });
    await watcher.connect();
    let blocked = 0;
    while (blocked === 0) {
      const seen = await watcher.query<{ n: string }>("SELECT count(*) AS n FROM pg_locks WHERE NOT granted");
      blocked = Number(seen.rows[0]?.n);
    }
    await watcher.query("SELECT pg_terminate_backend($1)", [rows[0]?.pid]);
    expect((await waiting).status).toBe(200);
    const repeat = await send();
    expect(repeat.text).toBe((await waiting).text);
    expect((await door.shop("/queues/q/stats")).json.ready).toBe(1);
    await watcher.end();
    await door.close();
  });
});
