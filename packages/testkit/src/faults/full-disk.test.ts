import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { api, Refused } from "./api.ts";
import { type MillraceProcess, millrace } from "./millrace-process.ts";
import { type SmallDisk, smallDisk } from "./small-disk.ts";

let disk: SmallDisk | undefined;
let server: MillraceProcess | undefined;
afterEach(async () => {
  await server?.kill();
  disk?.remove();
});

const allowed = [429, 503, 507];
/** The status of what was refused; fails the test for any other trouble. */
const refusal = (error: unknown): number => {
  if (!(error instanceof Refused)) throw error;
  return error.status;
};

it("STORE-04, Q6: a full disk refuses sends, loses nothing that was answered, stores nothing that was refused", {
  timeout: 180_000,
}, async () => {
  disk = smallDisk();
  server = await millrace({ data: join(disk.path, "data"), env: disk.env });
  await server.start();
  const client = api(server);
  await client.createQueue({ name: "q", visibilityTimeoutSeconds: 1 });
  const kept = new Map<string, number>();
  const refusedBodies = new Set<number>();
  const statuses = new Set<number>();
  let n = 0;
  const send = async (): Promise<boolean> => {
    const bodies = [n++, n++];
    try {
      const answered = await client.send(
        "q",
        bodies.map((number) => ({ body: JSON.stringify({ number, filling: "x".repeat(200_000) }) })),
      );
      for (const [index, { messageId }] of answered.entries()) kept.set(messageId, bodies[index] as number);
      return true;
    } catch (error) {
      statuses.add(refusal(error));
      for (const number of bodies) refusedBodies.add(number);
      return false;
    }
  };
  for (let count = 0; count < 600; count++) {
    if (disk.kind === "shim" && count === 20) disk.fill();
    if (!(await send())) break;
  }
  expect(refusedBodies.size).toBeGreaterThan(0);
  disk.fill();
  for (let count = 0; count < 10; count++) await send();

  const acked = new Set<string>();
  const work = async (): Promise<number> => {
    try {
      const messages = await client.receive("q", 0);
      for (const { messageId, body } of messages) {
        expect(kept.get(messageId)).toBe((JSON.parse(body ?? "{}") as { number: number }).number);
        expect(acked.has(messageId)).toBe(false);
      }
      if (messages.length === 0) return 0;
      const results = await client.ack(
        "q",
        messages.map(({ receipt }) => receipt),
      );
      results.forEach(({ ok }, index) => {
        if (ok) acked.add(messages[index]?.messageId ?? "");
      });
      return messages.length;
    } catch (error) {
      statuses.add(refusal(error));
      return -1;
    }
  };
  for (let count = 0; count < 3; count++) await work();
  expect([...statuses].filter((status) => !allowed.includes(status))).toEqual([]);

  // Starting on a full disk either works or says why.
  await server.kill();
  const started = await server.start().then(
    () => "works",
    (error: Error) => error.message,
  );
  expect(started).toMatch(/works|full|space/i);

  disk.free();
  await server.kill();
  await server.start();
  expect(await send()).toBe(true);
  const until = Date.now() + 60_000;
  while (acked.size < kept.size && Date.now() < until) await work();
  expect([...kept.keys()].filter((id) => !acked.has(id))).toEqual([]);
});
