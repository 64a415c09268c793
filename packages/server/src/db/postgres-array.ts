/**
 * Arrays of numbers and texts as PostgreSQL takes them in its binary format: a header, then each element behind its length. As text the
 * driver quotes and the server parses every element, which costs both of them several times as much.
 */
import type { Value } from "./db.ts";

/** The types of elements, by PostgreSQL's numbers for them. */
const OID = { bigint: 20, int: 23, text: 25 } as const;
const HEADER = 20;
const HIGH = 2 ** 32;

/** A one-dimensional array; `null` elements are allowed. */
export function binaryArray(type: keyof typeof OID, values: readonly Value[]): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER + (type === "text" ? textBytes(values) : values.length * (type === "int" ? 8 : 12)));
  bytes.writeInt32BE(1, 0);
  bytes.writeInt32BE(OID[type], 8);
  bytes.writeInt32BE(values.length, 12);
  bytes.writeInt32BE(1, 16);
  let at = HEADER;
  let nulls = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value === null || value === undefined) {
      nulls = 1;
      at = bytes.writeInt32BE(-1, at);
    } else if (type === "text") {
      const length = bytes.write(String(value), at + 4);
      bytes.writeInt32BE(length, at);
      at += 4 + length;
    } else if (type === "int") {
      at = bytes.writeInt32BE(4, at);
      at = bytes.writeInt32BE(Number(value), at);
    } else {
      const number = Number(value);
      at = bytes.writeInt32BE(8, at);
      at = bytes.writeInt32BE(Math.floor(number / HIGH), at);
      at = bytes.writeUInt32BE(number >>> 0, at);
    }
  }
  bytes.writeInt32BE(nulls, 4);
  return bytes.subarray(0, at);
}

/** The most bytes that texts can take: three for a UTF-16 unit. */
function textBytes(values: readonly Value[]): number {
  let sum = 0;
  for (const value of values) sum += 4 + (typeof value === "string" ? value.length : 20) * 3;
  return sum;
}
