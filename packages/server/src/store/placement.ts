/**
 * How slots are shared out among live nodes: pure decisions. Every node has a fair number of them, the same whoever computes it; slots
 * without a live owner are taken at once, and what a node has beyond its share it gives away one slot at a time.
 */

/** A slot's owner as stored; `null`: nobody's. */
export interface OwnedSlot {
  no: number;
  owner: string | null;
}

/** What a node should do now: slots to take, and one to give to another node. */
export interface Placement {
  take: number[];
  give: { no: number; to: string } | null;
}

/** The next step of `self`, one of the `live` nodes. */
export function place(self: string, live: readonly string[], slots: readonly OwnedSlot[]): Placement {
  const nodes = [...new Set(live)].sort();
  const share = (node: string): number => Math.floor((slots.length + nodes.length - 1 - nodes.indexOf(node)) / nodes.length);
  const owned = new Map<string, number[]>(nodes.map((node) => [node, []]));
  const vacant: number[] = [];
  for (const { no, owner } of slots) (owner === null ? vacant : (owned.get(owner) ?? vacant)).push(no);
  const has = (node: string): number => owned.get(node)?.length ?? 0;
  const mine = owned.get(self) ?? [];
  const take = vacant.slice(0, Math.max(0, share(self) - mine.length));
  if (mine.length <= share(self)) return { take, give: null };
  const to = nodes.reduce((poorest, node) => (has(node) - share(node) < has(poorest) - share(poorest) ? node : poorest), self);
  const no = mine.at(-1);
  return { take, give: no === undefined || has(to) >= share(to) ? null : { no, to } };
}
