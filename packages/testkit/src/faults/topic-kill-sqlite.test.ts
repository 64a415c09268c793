import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { scratch } from "../scratch.ts";
import { type MillraceOptions, millrace } from "./millrace-process.ts";
import { rounds } from "./strike.ts";
import { topicsKilled } from "./topic-kill.ts";

const plant = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

async function killed(times: number, waitMs: number, options: MillraceOptions = {}) {
  const folder = scratch("topic-kill");
  const server = await millrace({ data: join(folder.path, "data"), ...options });
  await server.start();
  try {
    return await topicsKilled(server, times, waitMs);
  } finally {
    await server.kill();
    folder.remove();
  }
}

it("T3, T9: on SQLite kill -9 at random instants leaves exactly one record for each match, and its message with it", {
  timeout: 600_000,
}, async () => {
  const { violations, answered } = await killed(rounds(4), 90_000);
  expect(violations).toEqual([]);
  expect(answered).toBeGreaterThan(40);
});

it("the kill loop on topics catches a fan-out that loses records", { timeout: 300_000 }, async () => {
  const { violations } = await killed(1, 1_000, { preload: plant("./lost-records.mjs") });
  expect(new Set(violations.map(({ rule }) => rule))).toContain("missing");
});

it("the kill loop on topics catches a server that answers before it commits", { timeout: 300_000 }, async () => {
  const { violations } = await killed(3, 1_000, { preload: plant("./answer-before-commit.mjs") });
  expect(new Set(violations.map(({ rule }) => rule))).toContain("lost");
});
