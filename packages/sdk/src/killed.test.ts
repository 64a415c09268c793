/** A worker that dies without a word in the middle of its batch. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Live, live } from "./live.fixture.ts";

const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const worker = fileURLToPath(new URL("stuck-worker.fixture.ts", import.meta.url));

let server: Live;
beforeAll(async () => {
  server = await live();
});
afterAll(() => server.close());

it("C13: a worker that is killed in the middle of a batch loses nothing: its leases lapse, and others handle what it had", async () => {
  const jobs = server.client.queue<number>("jobs");
  await jobs.ensure({ visibilityTimeout: "60s" });
  const all = Array.from({ length: 30 }, (_, n) => n);
  await jobs.sendBatch(all.map((payload) => ({ payload })));

  const child = spawn(process.execPath, ["--import", loader, "--conditions=@millrace/source", worker, "jobs", "12", "5"], {
    env: { ...process.env, NODE_OPTIONS: "", MILLRACE_URL: server.url, MILLRACE_API_KEY: server.apiKey, MILLRACE_PROJECT: "shop" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const done: number[] = [];
  const stuck: number[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const [what, n] = line.split(" ");
    (what === "handled" ? done : stuck).push(Number(n));
    // All that it may hold is stuck: it is in the middle of its work.
    if (stuck.length === 12) child.kill("SIGKILL");
  }
  expect(await exited).toEqual([null, "SIGKILL"]);
  expect(done).toHaveLength(5);
  expect((await jobs.info()).stats).toMatchObject({ acknowledged: 5, inflight: 12, ready: 13 });

  const attempts = new Map<number, number>();
  const work = () =>
    jobs.consume((n, { attempt }) => void attempts.set(n, attempt), { stopWhenEmpty: true, concurrency: 10, onError: () => {} });
  await work();
  expect([...attempts.keys()].sort((a, b) => a - b)).toEqual(all.filter((n) => !done.includes(n) && !stuck.includes(n)));
  server.advance(60_000);
  await server.until(
    async () => {
      await work();
      return jobs.info();
    },
    ({ stats }) => stats.acknowledged === 30,
  );
  expect([...attempts.keys(), ...done].sort((a, b) => a - b)).toEqual(all);
  expect(stuck.map((n) => attempts.get(n))).toEqual(stuck.map(() => 2));
  expect((await jobs.info()).stats).toMatchObject({ acknowledged: 30, ready: 0, inflight: 0, scheduled: 0, dead: 0 });
});
