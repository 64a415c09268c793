/** The few DER types (ITU-T X.690) that a certificate is made of, written as bytes. */

function length(n: number): number[] {
  if (n < 128) return [n];
  const bytes: number[] = [];
  for (let rest = n; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [128 + bytes.length, ...bytes];
}

/** One tag, its length and its content. */
export function tagged(tag: number, ...content: Uint8Array[]): Uint8Array {
  const body = content.flatMap((part) => [...part]);
  return Uint8Array.from([tag, ...length(body.length), ...body]);
}

export const sequence = (...content: Uint8Array[]): Uint8Array => tagged(0x30, ...content);
export const set = (...content: Uint8Array[]): Uint8Array => tagged(0x31, ...content);
/** Content of a context tag whose own tag stays. */
export const explicit = (number: number, content: Uint8Array): Uint8Array => tagged(0xa0 + number, content);
export const bool = (value: boolean): Uint8Array => tagged(0x01, Uint8Array.from([value ? 0xff : 0]));
export const octets = (content: Uint8Array): Uint8Array => tagged(0x04, content);
export const text = (value: string): Uint8Array => tagged(0x0c, new TextEncoder().encode(value));
/** `unused`: how many of the last byte's bits do not count. */
export const bits = (content: Uint8Array, unused = 0): Uint8Array => tagged(0x03, Uint8Array.from([unused]), content);
/** A positive integer of these big-endian bytes. */
export const integer = (bytes: Uint8Array): Uint8Array => tagged(0x02, (bytes[0] ?? 0) >= 128 ? Uint8Array.of(0) : Uint8Array.of(), bytes);

/** An object identifier in dotted form. */
export function oid(dotted: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const groups = [arc % 128];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) groups.unshift(128 + (left % 128));
    bytes.push(...groups);
  }
  return tagged(0x06, Uint8Array.from(bytes));
}

/** An instant as GeneralizedTime, in whole seconds. */
export function instant(ms: number): Uint8Array {
  const digits = new Date(ms).toISOString().replace(/\.\d+/, "").replace(/[-:T]/g, "");
  return tagged(0x18, new TextEncoder().encode(digits));
}
