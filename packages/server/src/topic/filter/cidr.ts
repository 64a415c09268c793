/**
 * Addresses and blocks of a policy's `cidr` conditions: IPv4 and IPv6, an IPv4-mapped address being the IPv4 address it stands for. The reading
 * is strict and throws nothing: a message may hold tens of thousands of texts that only look like addresses.
 */

/** An address as 16-bit words: two of IPv4, eight of IPv6. */
type Words = readonly number[];

/** A block: the addresses whose first `prefix` bits are those of `words`. */
export interface AddressBlock {
  words: Words;
  prefix: number;
}

/** The longest text that is an address. */
const maxAddressLength = 45;

function readIPv4(text: string): Words | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (match === null) return undefined;
  const bytes: number[] = [];
  for (const part of match.slice(1)) {
    // a leading zero means octal to some: refused
    if (Number(part) > 255 || (part.length > 1 && part.startsWith("0"))) return undefined;
    bytes.push(Number(part));
  }
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  return [a * 256 + b, c * 256 + d];
}

/** The words of one side of `::`; an IPv4 address may stand at the very end. */
function readSide(text: string): Words | undefined {
  if (text === "") return [];
  const words: number[] = [];
  const parts = text.split(":");
  for (const [at, part] of parts.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(part)) words.push(Number.parseInt(part, 16));
    else {
      const tail = at === parts.length - 1 ? readIPv4(part) : undefined;
      if (tail === undefined) return undefined;
      words.push(...tail);
    }
  }
  return words;
}

function readIPv6(text: string): Words | undefined {
  const [left = "", right, ...more] = text.split("::");
  const before = readSide(left);
  const after = right === undefined ? [] : readSide(right);
  if (more.length > 0 || before === undefined || after === undefined) return undefined;
  // an IPv4 address ends the whole, not only its left side
  if (right !== undefined && left.includes(".")) return undefined;
  const gap = 8 - before.length - after.length;
  if (right === undefined ? gap !== 0 : gap < 1) return undefined;
  return [...before, ...new Array<number>(gap).fill(0), ...after];
}

const isMapped = (words: Words): boolean => words.length === 8 && words.slice(0, 5).every((word) => word === 0) && words[5] === 0xffff;

/** An address as it is written, or `undefined`. */
function readAddress(text: string): Words | undefined {
  if (text.length > maxAddressLength) return undefined;
  return text.includes(":") ? readIPv6(text) : readIPv4(text);
}

/** Reads `10.0.0.0/24` or `2001:db8::/32`, or a single address; `undefined` for anything else. */
export function parseBlock(text: string): AddressBlock | undefined {
  const [host = "", length, ...more] = text.split("/");
  const words = readAddress(host);
  if (words === undefined || more.length > 0 || (length !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(length))) return undefined;
  const bits = words.length * 16;
  const prefix = length === undefined ? bits : Number(length);
  if (prefix > bits) return undefined;
  if (!isMapped(words)) return { words, prefix };
  // ::ffff:10.0.0.0/104 is 10.0.0.0/8
  return prefix < 96 ? undefined : { words: words.slice(6), prefix: prefix - 96 };
}

/** Whether a text is an address of the block. A text that is no address is in none. */
export function isWithin(text: string, block: AddressBlock): boolean {
  const given = readAddress(text);
  if (given === undefined) return false;
  const words = isMapped(given) ? given.slice(6) : given;
  if (words.length !== block.words.length) return false;
  return words.every((word, at) => {
    const bits = Math.min(16, Math.max(0, block.prefix - at * 16));
    return word >> (16 - bits) === (block.words[at] as number) >> (16 - bits);
  });
}
