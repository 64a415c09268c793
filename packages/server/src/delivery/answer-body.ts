/**
 * What is kept of an answer's body (P9). Up to 1 MiB is read; a 2xx of up to 1 MiB is kept whole, of anything else the first 16 KiB.
 * Bodies beyond 16 KiB are collected in a bounded room of lent buffers: while all are lent they are not read on, so that a hundred
 * endless answers cost no more memory than a few.
 */

/** How much is read. */
export const maxAnswerBytes = 1024 * 1024;
/** How much every body may keep without asking for room. */
const smallBytes = 16 * 1024;
/** Buffers of 1 MiB for larger bodies. */
const largeBodies = 8;

/** A body that asks for room is known by what it wants called with its buffer. */
export type Granted = (buffer: Uint8Array) => void;

/** Lends buffers of `maxAnswerBytes`; who finds none waits in line. */
export interface Room {
  /** A buffer, or `undefined`: then `granted` is called once there is one. */
  enter(granted: Granted): Uint8Array | undefined;
  /** Gives the buffer back, or leaves the line. */
  leave(granted: Granted): void;
}

/** A room for `places` large bodies. Buffers are made when first needed and used again. */
export function createRoom(places: number = largeBodies): Room {
  const lent = new Map<Granted, Uint8Array>();
  const waiting = new Set<Granted>();
  const free: Uint8Array[] = [];
  return {
    enter(granted) {
      if (lent.size >= places) {
        waiting.add(granted);
        return undefined;
      }
      const buffer = free.pop() ?? new Uint8Array(maxAnswerBytes);
      lent.set(granted, buffer);
      return buffer;
    },
    leave(granted) {
      waiting.delete(granted);
      const buffer = lent.get(granted);
      if (buffer === undefined) return;
      lent.delete(granted);
      const next = waiting.values().next().value;
      if (next === undefined) {
        free.push(buffer);
        return;
      }
      waiting.delete(next);
      lent.set(next, buffer);
      next(buffer);
    },
  };
}

export interface AnswerBody {
  /** Takes a chunk; `false` when the answer is over its limit and nothing more is to be read. */
  add(chunk: Uint8Array | Buffer): boolean;
  /** What was kept. Ends the collecting. */
  take(): Uint8Array;
  /** More came than `take` gave. */
  readonly truncated: boolean;
  /** Gives up its room. */
  close(): void;
}

/** Collects a body. `whole`: keep all of it. `flow` stops and restarts the reading while it waits for room. */
export function answerBody(room: Room, whole: boolean, flow: { pause: () => void; resume: () => void }): AnswerBody {
  let kept: Uint8Array = new Uint8Array(0);
  let keptBytes = 0;
  let readBytes = 0;
  let place: "none" | "waiting" | "lent" = "none";
  /** Came while there was no room: a parser hands over all of what it holds before it stops. */
  let left: Uint8Array[] = [];

  const moveTo = (buffer: Uint8Array): void => {
    buffer.set(kept.subarray(0, keptBytes));
    kept = buffer;
  };
  const store = (chunk: Uint8Array | Buffer): void => {
    const limit = place === "lent" ? maxAnswerBytes : smallBytes;
    const bytes = Math.min(chunk.length, limit - keptBytes);
    if (keptBytes + bytes > kept.length) moveTo(new Uint8Array(Math.min(limit, Math.max(keptBytes + bytes, kept.length * 2))));
    kept.set(bytes === chunk.length ? chunk : chunk.subarray(0, bytes), keptBytes);
    keptBytes += bytes;
  };
  const storeLeft = (): void => {
    for (const chunk of left) store(chunk);
    left = [];
  };
  const granted: Granted = (buffer) => {
    place = "lent";
    moveTo(buffer);
    storeLeft();
    flow.resume();
  };

  return {
    add(chunk) {
      readBytes += chunk.length;
      if (readBytes > maxAnswerBytes) {
        store(chunk);
        return false;
      }
      if (whole && place === "none" && readBytes > smallBytes) {
        const buffer = room.enter(granted);
        place = buffer === undefined ? "waiting" : "lent";
        if (buffer === undefined) flow.pause();
        else moveTo(buffer);
      }
      if (place === "waiting") left.push(Uint8Array.from(chunk));
      else store(chunk);
      return true;
    },
    take() {
      // Complete while it waited: what is left over is within the limit, and its owner's from now on.
      if (left.length > 0) {
        place = "lent";
        moveTo(new Uint8Array(readBytes));
        storeLeft();
      }
      if (readBytes > maxAnswerBytes) keptBytes = Math.min(keptBytes, smallBytes);
      return place === "lent" || readBytes > maxAnswerBytes ? kept.slice(0, keptBytes) : kept.subarray(0, keptBytes);
    },
    get truncated() {
      return readBytes > keptBytes;
    },
    close() {
      room.leave(granted);
    },
  };
}
