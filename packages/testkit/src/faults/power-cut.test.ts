import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { lacks } from "../tools.ts";
import { type Disk, disk, type Image } from "./power-cut.ts";

const writer = fileURLToPath(new URL("./raw-writer.mjs", import.meta.url));

/** Rows whose commit was reported by the time the writer was killed, after about `count` of them. */
async function writeUntilKilled(on: Disk, synchronous: "FULL" | "OFF", count: number, lie = false): Promise<number[]> {
  const child: ChildProcess = spawn(process.execPath, [writer, join(on.live, "m.db"), synchronous], {
    env: { ...process.env, ...on.env({ lie }) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (child.stdout === null) throw new Error("no output");
  const reported: number[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    reported.push(Number(line));
    if (reported.length === count) child.kill("SIGKILL");
  });
  await once(child, "close");
  return reported;
}

/** How many reported rows an image lacks; -1 when it cannot be read. */
function missing(on: Disk, kind: Image, reported: readonly number[]): number {
  const db = new Database(join(on.image(kind), "m.db"));
  try {
    if (db.pragma("integrity_check", { simple: true }) !== "ok") return -1;
    const kept = new Set(db.prepare("SELECT id FROM m").pluck().all());
    return reported.filter((id) => !kept.has(id)).length;
  } catch {
    return -1;
  } finally {
    db.close();
  }
}

describe.skipIf(lacks("cc"))("the power-cut shim", () => {
  it("keeps every flushed commit in all three images", async () => {
    const on = disk();
    const reported = await writeUntilKilled(on, "FULL", 400);
    expect(reported.length).toBeGreaterThanOrEqual(400);
    expect((["live", "lost", "torn"] as const).map((kind) => missing(on, kind, reported))).toEqual([0, 0, 0]);
    on.remove();
  });

  it("loses unflushed commits to a power cut, and to a cut alone", async () => {
    for (const [synchronous, lie] of [
      ["OFF", false],
      ["FULL", true],
    ] as const) {
      const on = disk();
      const reported = await writeUntilKilled(on, synchronous, 400, lie);
      expect(missing(on, "live", reported)).toBe(0);
      expect(missing(on, "lost", reported)).not.toBe(0);
      on.remove();
    }
  });
});
