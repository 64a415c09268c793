/**
 * Texts as UTF-8. Small ones share a slab, as Node's own buffers do: a request body of its own memory costs the garbage collector more
 * than everything else about it. What was handed out is never written again.
 */
const encoder = new TextEncoder();
const SLAB = 64 * 1024;
/** A character of a string takes at most so many bytes. */
const WIDEST = 3;

let slab = new Uint8Array(SLAB);
let used = 0;

/** The bytes of a text; the array may be part of a larger buffer. */
export function utf8(text: string): Uint8Array {
  const most = text.length * WIDEST;
  if (most > SLAB / 4) return encoder.encode(text);
  if (used + most > SLAB) {
    slab = new Uint8Array(SLAB);
    used = 0;
  }
  const { written } = encoder.encodeInto(text, slab.subarray(used, used + most));
  used += written;
  return slab.subarray(used - written, used);
}
