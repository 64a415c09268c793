/**
 * Which slot a piece of work belongs to: every lane and every duty hashes to one of 256 slots, and slots are what nodes own. The hash
 * is part of what nodes of different versions agree on: it must never change.
 */

/** How many slots there are. */
export const SLOTS = 256;

/** The slot of a key such as `queue:12`: FNV-1a over its UTF-16 units, folded to a byte. */
export function slotOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return ((hash >>> 24) ^ (hash >>> 16) ^ (hash >>> 8) ^ hash) & (SLOTS - 1);
}
