/** A disk that a test can fill and empty: a file system of its own where this process may mount one, else one that refuses to grow. */
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "../scratch.ts";
import { shim } from "./shim.ts";

export interface SmallDisk {
  readonly path: string;
  readonly kind: "mounted" | "shim";
  /** What processes on this disk are to be started with. */
  readonly env: Record<string, string>;
  /** Takes every free byte. */
  fill(): void;
  /** Gives back what `fill` took, and some more. */
  free(): void;
  remove(): void;
}

/** Makes one of 400 MiB with 320 free: the product takes no sends below 256 MiB, and a file does not shrink once it has grown. Throws where neither way works: no right to mount and no C compiler. */
export function smallDisk(): SmallDisk {
  const folder = scratch("small");
  const path = join(folder.path, "disk");
  mkdirSync(path);
  const filler = join(path, "filler");
  const ballast = join(path, "ballast");
  const mounted =
    process.getuid?.() === 0 && spawnSync("mount", ["-t", "tmpfs", "-o", "size=400m", "tmpfs", path], { stdio: "ignore" }).status === 0;
  if (mounted) {
    writeFileSync(ballast, new Uint8Array(80 * 1024 * 1024));
    return {
      path,
      kind: "mounted",
      env: {},
      fill: () => fillUp(filler),
      free() {
        for (const file of [filler, ballast]) rmSync(file, { force: true });
      },
      remove() {
        execFileSync("umount", ["-l", path]);
        folder.remove();
      },
    };
  }
  const flag = join(folder.path, "full");
  return {
    path,
    kind: "shim",
    env: { LD_PRELOAD: shim("full-disk"), FULL_DISK_PATH: path, FULL_DISK_FLAG: flag },
    fill: () => writeFileSync(flag, ""),
    free: () => rmSync(flag, { force: true }),
    remove: folder.remove,
  };
}

function fillUp(path: string): void {
  const file = openSync(path, "a");
  try {
    for (let size = 1 << 20; size > 0; size = Math.floor(size / 2)) {
      try {
        for (;;) if (writeSync(file, new Uint8Array(size)) < size) break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(file);
  }
}
