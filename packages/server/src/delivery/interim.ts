/**
 * Skips interim answers (P9): 100, 102, 103 and whatever else begins with 1, apart from 101. The HTTP parser gives a connection up at a
 * 100 that nobody asked for, so such heads are taken out of what it reads, until another head begins.
 */
import type { Socket } from "node:net";

const start = "HTTP/1.1 1";
/** More than any sane head: past it the bytes are the parser's to refuse. */
const maxHead = 16_384;

/** Whether `data`, possibly still short, begins like an interim head. The minor version does not matter. */
function beginsInterim(data: Buffer): boolean {
  const length = Math.min(data.length, start.length);
  for (let i = 0; i < length; i++) if (i !== 7 && data[i] !== start.charCodeAt(i)) return false;
  return !(data[10] === 0x30 && data[11] === 0x31);
}

/** Makes `socket.read` skip interim heads. Call the result when a request is about to be written. */
export function skipInterim(socket: Socket): () => void {
  const read = socket.read.bind(socket);
  let looking = false;
  let held: Buffer | undefined;
  socket.read = (size?: number): Buffer | null => {
    const chunk = read(size) as Buffer | null;
    if (!looking || chunk === null) return chunk;
    let data = held === undefined ? chunk : Buffer.from(held.toString("latin1") + chunk.toString("latin1"), "latin1");
    held = undefined;
    while (data.length > 0) {
      const interim = beginsInterim(data);
      const end = interim && data.length >= 12 ? data.indexOf("\r\n\r\n") : -1;
      if (!interim || (end < 0 && data.length > maxHead)) {
        looking = false;
        return data;
      }
      if (end < 0) {
        held = data;
        return null;
      }
      data = data.subarray(end + 4);
    }
    return null;
  };
  return () => {
    looking = true;
    held = undefined;
  };
}
