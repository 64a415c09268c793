/**
 * Fences (A13): a change that depends on owning a slot holds the slot's lock, shared, until its commit, and is refused when the slot has
 * passed on. Who changes a slot's owner takes that lock alone: so of two owners the former's changes end before the next one begins.
 */
import type { Tx } from "../db/db.ts";
import type { Fence } from "./types.ts";

/** The change was one of a former owner: nothing of it was stored. */
export class StaleFence extends Error {
  constructor() {
    super("another node owns this work now");
    this.name = "StaleFence";
  }
}

/**
 * Checks fences. To be called before anything else is locked, and awaited before the commit at the latest: what is done in between
 * travels to the database together with the question. Rejects with `StaleFence`.
 */
export async function holdFences(tx: Tx, fences: Iterable<Fence | undefined>): Promise<void> {
  const held = new Map<number, number>();
  for (const fence of fences) {
    if (fence === undefined || fence.slot < 0) continue;
    if ((held.get(fence.slot) ?? fence.token) !== fence.token) throw new StaleFence();
    held.set(fence.slot, fence.token);
  }
  if (held.size === 0) return;
  const slots = [...held.keys()].map((slot) => [slot]);
  tx.post("fence.hold", slots);
  for (const { slot, token } of await tx.each<{ slot: number; token: number }>("fence.read", slots)) {
    if (held.get(slot) === token) held.delete(slot);
  }
  if (held.size > 0) throw new StaleFence();
}
