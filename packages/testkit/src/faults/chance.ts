/** Chance that can be repeated: the same seed gives the same sequence. */

/** Numbers in [0, 1) from a seed (the mulberry32 generator). */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `MILLRACE_TEST_SEED`, else a new seed. Failing loops print theirs. */
export function seed(): number {
  const given = process.env.MILLRACE_TEST_SEED;
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
}
