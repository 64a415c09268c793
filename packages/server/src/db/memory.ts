/**
 * What transactions remember for later ones. Only what a transaction read at the memory's own version is kept, so that nothing read
 * before a change can be remembered after it.
 */
export interface Memory {
  version: number;
  values: Map<number, unknown>;
}

/** The most values kept; beyond it the memory starts over. */
const MOST = 50_000;

/** A memory that knows nothing. */
export function createMemory(): Memory {
  return { version: -1, values: new Map() };
}

/** Brings the memory to `version`, empty if it was at an older one. */
export function renew(memory: Memory, version: number): void {
  if (version <= memory.version) return;
  memory.version = version;
  memory.values.clear();
}

/** Keeps a value that was read at `version`. */
export function keep(memory: Memory, version: number, no: number, value: unknown): void {
  if (version !== memory.version) return;
  if (memory.values.size >= MOST) memory.values.clear();
  memory.values.set(no, value);
}
