/**
 * What is kept of an answer's body (P9). Up to 1 MiB is read; a 2xx of up to 1 MiB is kept whole, of anything else the first 64 KiB.
 * Bodies beyond 64 KiB share a bounded room: while it is full they are not read on, so that a hundred endless answers cost no more
 * memory than a few.
 */

/** How much is read. */
export const maxAnswerBytes = 1024 * 1024;
/** How much every body may keep without asking for room. */
const smallBytes = 64 * 1024;
/** Bodies beyond `smallBytes` at a time: 16 MiB in all. */
const largeBodies = 16;

/** Who may keep a large body; others wait in line. */
export interface Room {
  /** `true`: there is room now. Otherwise `granted` is called once there is. */
  enter(granted: () => void): boolean;
  /** Gives the room back, or leaves the line. */
  leave(granted: () => void): void;
}

/** A room for `places` large bodies. */
export function createRoom(places: number = largeBodies): Room {
  const inside = new Set<() => void>();
  const waiting = new Set<() => void>();
  return {
    enter(granted) {
      if (inside.has(granted)) return true;
      if (inside.size < places) {
        inside.add(granted);
        return true;
      }
      waiting.add(granted);
      return false;
    },
    leave(granted) {
      waiting.delete(granted);
      if (!inside.delete(granted)) return;
      for (const next of waiting) {
        waiting.delete(next);
        inside.add(next);
        next();
        break;
      }
    },
  };
}

export interface AnswerBody {
  /** Takes a chunk; `false` when the answer is over its limit and nothing more is to be read. */
  add(chunk: Uint8Array | Buffer): boolean;
  /** What was kept. */
  take(): Uint8Array;
  /** More came than `take` gives. */
  readonly truncated: boolean;
  /** Gives up its room. */
  close(): void;
}

/** Collects a body. `whole`: keep all of it. `flow` stops and restarts the reading while it waits for room. */
export function answerBody(room: Room, whole: boolean, flow: { pause: () => void; resume: () => void }): AnswerBody {
  const keep = whole ? maxAnswerBytes : smallBytes;
  let kept = new Uint8Array(0);
  let keptBytes = 0;
  let readBytes = 0;
  /** Came while there was no room; at most one chunk of the socket. */
  let left: Uint8Array | undefined;

  const store = (chunk: Uint8Array | Buffer): void => {
    const bytes = Math.min(chunk.length, keep - keptBytes);
    if (keptBytes + bytes > kept.length) {
      const larger = new Uint8Array(Math.min(keep, Math.max(keptBytes + bytes, kept.length * 2)));
      larger.set(kept.subarray(0, keptBytes));
      kept = larger;
    }
    kept.set(bytes === chunk.length ? chunk : chunk.subarray(0, bytes), keptBytes);
    keptBytes += bytes;
  };
  const granted = (): void => {
    if (left !== undefined) store(left);
    left = undefined;
    flow.resume();
  };

  return {
    add(chunk) {
      readBytes += chunk.length;
      if (whole && keptBytes + chunk.length > smallBytes && readBytes <= maxAnswerBytes && !room.enter(granted)) {
        // A parser hands over all of what it holds before it stops.
        const longer = new Uint8Array((left?.length ?? 0) + chunk.length);
        if (left !== undefined) longer.set(left);
        longer.set(chunk, left?.length ?? 0);
        left = longer;
        flow.pause();
      } else store(chunk);
      return readBytes <= maxAnswerBytes;
    },
    take() {
      if (left !== undefined) store(left);
      left = undefined;
      if (readBytes <= maxAnswerBytes) return kept.subarray(0, keptBytes);
      keptBytes = Math.min(keptBytes, smallBytes);
      return Uint8Array.from(kept.subarray(0, keptBytes));
    },
    get truncated() {
      return readBytes > keptBytes;
    },
    close() {
      room.leave(granted);
    },
  };
}
