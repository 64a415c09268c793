/**
 * Power cuts for a child process, without a machine to switch off: the shim in `faults/power-cut.c` keeps a second copy of each file
 * as of its last flush. After the child was killed, three images can be opened: `live` (only the process died), `lost` (nothing
 * unflushed reached the disk) and `torn` (some of the unflushed pages did, any of them).
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "../scratch.ts";
import { shim } from "./shim.ts";

export type Image = "live" | "lost" | "torn";

/** A disk that can lose its power. */
export interface Disk {
  /** Where the child is to keep its files. */
  readonly live: string;
  /** What to start the child with. `lie`: flushes are ignored, as by a broken disk. */
  env(options?: { lie?: boolean }): Record<string, string>;
  /** A copy of the disk after the cut, in a folder of its own. `random` in [0, 1) picks the torn pages. */
  image(kind: Image, random?: () => number): string;
  /** Cuts the power: `live` is from now on what `image` would answer. No process may have it open. */
  cut(kind: Image, random?: () => number): void;
  remove(): void;
}

const page = 4096;

/** Every other unflushed page, by chance, on top of what was flushed. */
function tear(flushed: string, live: string, random: () => number): void {
  for (const name of readdirSync(live)) {
    const now = readFileSync(join(live, name));
    let before: Uint8Array;
    try {
      before = Uint8Array.from(readFileSync(join(flushed, name)));
    } catch {
      continue; // Never flushed: not even its name need be there.
    }
    const torn = new Uint8Array(Math.max(before.length, random() < 0.5 ? now.length : 0));
    torn.set(before);
    for (let at = 0; at < Math.min(now.length, torn.length); at += page) {
      if (random() < 0.5) torn.set(Uint8Array.from(now.subarray(at, Math.min(at + page, torn.length))), at);
    }
    writeFileSync(join(flushed, name), torn);
  }
}

/** Makes an empty disk. */
export function disk(): Disk {
  const { path, remove } = scratch("disk");
  const live = join(path, "live");
  const shadow = join(path, "shadow");
  mkdirSync(live);
  mkdirSync(shadow);
  let images = 0;
  const image = (kind: Image, random: () => number = Math.random): string => {
    images += 1;
    const copy = join(path, `image-${images}`);
    cpSync(kind === "live" ? live : shadow, copy, { recursive: true });
    // The index of the log lives in shared memory: a machine that lost its power has none.
    if (kind !== "live") for (const name of readdirSync(copy)) if (name.endsWith("-shm")) rmSync(join(copy, name));
    if (kind === "torn") tear(copy, live, random);
    return copy;
  };
  return {
    live,
    env: ({ lie = false } = {}) => ({
      LD_PRELOAD: shim("power-cut"),
      POWER_CUT_LIVE: live,
      POWER_CUT_SHADOW: shadow,
      POWER_CUT_LIE: lie ? "1" : "0",
    }),
    image,
    cut(kind, random) {
      const after = image(kind, random);
      for (const folder of [live, shadow]) rmSync(folder, { recursive: true });
      cpSync(after, shadow, { recursive: true });
      renameSync(after, live);
    },
    remove,
  };
}
