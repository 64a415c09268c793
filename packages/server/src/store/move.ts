/**
 * Moving dead letters back to where they came from (Q14): those of a queue's own list become ready again, those of a dead-letter
 * queue return to their source. Fresh attempts and retention, a new number at the tail, everything else as it was.
 */
import type { Tx } from "../db/db.ts";
import { type Grouped, groupsOf, lockHeads, lockQueues, promote } from "./group.ts";
import { expiryOf, groupKeyIn, type HotQueue, readQueues } from "./queue-memory.ts";
import { count, type Tally, writeTally } from "./tally.ts";

interface Letter extends Grouped {
  seq: number;
  source_no: number | null;
  dead_at: number | null;
}

/** `failed` letters have no source to go to and stay; `error` says so. A letter in flight or gone meanwhile is in neither figure. */
export interface Moved {
  moved: number;
  failed: number;
  error: string | null;
  /** The old and the new numbers. */
  seqs: { was: number; seq: number }[];
}

/** Moves the messages numbered `seqs` of a queue. Not deduplicated: a move is not a send (Q11). */
export async function moveDeadLetters(tx: Tx, queueNo: number, seqs: readonly number[]): Promise<Moved> {
  const letters = (
    await tx.each<Letter>(
      "redrive.read",
      [...new Set(seqs)].sort((a, b) => a - b).map((seq) => [seq, queueNo]),
    )
  ).sort((a, b) => a.seq - b.seq);
  const queues = await readQueues(tx, [queueNo, ...letters.flatMap((letter) => (letter.source_no === null ? [] : [letter.source_no]))]);
  const targetOf = (letter: Letter): HotQueue | undefined =>
    letter.dead_at !== null ? queues.get(queueNo) : letter.source_no === null ? undefined : queues.get(letter.source_no);
  const going = letters.filter((letter) => targetOf(letter) !== undefined);
  const failed = letters.length - going.length;
  lockQueues(tx, [queueNo, ...going.map((letter) => (targetOf(letter) as HotQueue).no)]);
  lockHeads(tx, groupsOf(going));

  const fresh = going.length === 0 ? [] : await tx.sequence(going.length);
  const rows = going.map((letter, i) => {
    const to = targetOf(letter) as HotQueue;
    const dead = Number(letter.dead_at !== null);
    return [letter.seq, fresh[i] as number, queueNo, to.no, expiryOf(to, tx.now), Number(to.limit === null), dead];
  });
  const moved = await tx.each<{ was: number; seq: number; group_key: string | null; bytes: number }>("redrive.move", rows);
  const letterOf = new Map(going.map((letter) => [letter.seq, letter]));
  const tally: Tally = new Map();
  const touched: Grouped[] = [];
  for (const x of moved) {
    const letter = letterOf.get(x.was) as Letter;
    const to = targetOf(letter) as HotQueue;
    count(tally, queueNo, { [letter.dead_at === null ? "live" : "dead"]: -1, bytes: -x.bytes });
    count(tally, to.no, { live: 1, bytes: x.bytes });
    if (letter.dead_at === null) touched.push(letter);
    touched.push({ queue_no: to.no, group_key: groupKeyIn(to, x.group_key) });
    tx.ready(to.no, tx.now);
  }
  // Those of the targets too: a claim there may have leased what stands before the moved.
  lockHeads(tx, groupsOf(touched));
  await promote(tx, groupsOf(touched), queues);
  writeTally(tx, tally);
  return {
    moved: moved.length,
    failed,
    error: failed === 0 ? null : "the queue that a message came from does not exist",
    seqs: moved.map(({ was, seq }) => ({ was, seq })),
  };
}
