/**
 * Whether the disk still takes sends (Q2): below 5 % or 256 MiB free it does not. Looked at while sends come in, at most once a
 * second, so that a send never waits for it.
 */
import { statfs } from "node:fs/promises";

export interface FreeSpace {
  freeBytes: number;
  totalBytes: number;
}
export type ProbeFreeSpace = () => Promise<FreeSpace>;

const LEAST_BYTES = 256 * 1024 * 1024;
const LEAST_SHARE = 0.05;
const EVERY_MS = 1000;

/** Whether so little space is left that sends are refused. */
export function isDiskFull({ freeBytes, totalBytes }: FreeSpace): boolean {
  return freeBytes < LEAST_BYTES || freeBytes < totalBytes * LEAST_SHARE;
}

/** The space of the file system that holds `folder`. */
export const probeFolder =
  (folder: string): ProbeFreeSpace =>
  async () => {
    const { bavail, blocks, bsize } = await statfs(folder);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  };

/** Remembers the last look. `look` resolves once the first look is done; `full` starts the next one when it is time. */
export function createDiskGuard(probe: ProbeFreeSpace, monotonic: () => number) {
  let state = false;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | null = null;
  const look = (): Promise<void> => {
    lookedAt = monotonic();
    looking ??= probe()
      .then(
        (space) => {
          state = isDiskFull(space);
        },
        // A probe that fails says nothing about the disk: what can't be written is refused by the database.
        () => {},
      )
      .finally(() => {
        looking = null;
      });
    return looking;
  };
  return {
    look,
    full: (): boolean => {
      if (monotonic() - lookedAt >= EVERY_MS) void look();
      return state;
    },
  };
}
