/**
 * How claimed messages are laid out in batches: pure decisions. Heads come first, in the order of the line; what room is left goes
 * evenly to the groups of a batch; a group never lies in two batches.
 */

/** Shares `room` evenly over `takers`, the first ones getting what does not divide. */
export function evenShares(room: number, takers: number): number[] {
  return Array.from({ length: takers }, (_, i) => Math.floor((room - i + takers - 1) / takers));
}

/** One head with those who may follow it in the same batch. */
export interface Unit<Message> {
  head: Message;
  followers: readonly Message[];
}

/**
 * Lays units into at most `batches` batches of at most `size`, as few as hold everything. There are at most `batches * size` units.
 * Answers for each batch its units with the followers that found room.
 */
export function layOut<Message>(units: readonly Unit<Message>[], batches: number, size: number): Unit<Message>[][] {
  if (units.length === 0) return [];
  const total = units.reduce((sum, unit) => sum + 1 + unit.followers.length, 0);
  const used = Math.min(batches, Math.max(Math.ceil(units.length / size), Math.min(units.length, Math.ceil(total / size))));
  let from = 0;
  return evenShares(units.length, used).map((n) => {
    const own = units.slice(from, from + n);
    from += n;
    const taken = own.map(() => 0);
    let room = size - n;
    for (let moved = true; room > 0 && moved; ) {
      moved = false;
      for (let i = 0; i < own.length && room > 0; i++) {
        if ((taken[i] as number) >= (own[i] as Unit<Message>).followers.length) continue;
        taken[i] = (taken[i] as number) + 1;
        room--;
        moved = true;
      }
    }
    return own.map((unit, i) => ({ head: unit.head, followers: unit.followers.slice(0, taken[i]) }));
  });
}
