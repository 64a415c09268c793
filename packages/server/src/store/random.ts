/** Where receipts are drawn from: at random, or repeatably from a seed. */
import { randomBytes } from "node:crypto";

/** Numbers from 0 to 1 with 48 random bits; with a `seed` they repeat (mulberry32), for tests. */
export function randomOf(seed: number | null | undefined): () => number {
  if (seed == null) return () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48;
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
