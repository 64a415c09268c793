/**
 * What is due next: a binary heap of entries by instant, where an entry's instant can be moved. Each entry is in the heap at most
 * once, so its size is bounded by the number of lanes however often they are woken; a lane that waits for nothing is not in it.
 */

/** An entry; `slot` belongs to the heap (-1: not in it). `at` in milliseconds, changed only through `put`. */
export interface Entry {
  at: number;
  slot: number;
}

export interface Due<E extends Entry> {
  /** Adds the entry or moves it to another instant. */
  put(entry: E, at: number): void;
  /** Takes the entry out; harmless when it is not in. */
  remove(entry: E): void;
  /** The earliest entry, left in place. */
  first(): E | undefined;
  readonly size: number;
}

/** An empty heap. */
export function createDue<E extends Entry>(): Due<E> {
  const heap: E[] = [];

  const set = (entry: E, slot: number): void => {
    heap[slot] = entry;
    entry.slot = slot;
  };
  const up = (entry: E): void => {
    let slot = entry.slot;
    while (slot > 0) {
      const parent = heap[(slot - 1) >> 1];
      if (parent === undefined || parent.at <= entry.at) break;
      set(parent, slot);
      slot = (slot - 1) >> 1;
    }
    set(entry, slot);
  };
  const down = (entry: E): void => {
    let slot = entry.slot;
    for (;;) {
      const left = heap[2 * slot + 1];
      const right = heap[2 * slot + 2];
      const child = right !== undefined && left !== undefined && right.at < left.at ? right : left;
      if (child === undefined || child.at >= entry.at) break;
      const at = child.slot;
      set(child, slot);
      slot = at;
    }
    set(entry, slot);
  };

  return {
    put(entry, at) {
      entry.at = at;
      if (entry.slot < 0) set(entry, heap.length);
      up(entry);
      down(entry);
    },
    remove(entry) {
      if (entry.slot < 0) return;
      const last = heap.pop();
      if (last !== undefined && last !== entry) {
        set(last, entry.slot);
        up(last);
        down(last);
      }
      entry.slot = -1;
    },
    first: () => heap[0],
    get size() {
      return heap.length;
    },
  };
}
