/** Addresses and blocks of a policy's `cidr` conditions: IPv4 and IPv6, an IPv4-mapped address being the IPv4 address it stands for. */
import type { IPv4, IPv6 } from "ipaddr.js";
import { readAddress } from "../../delivery/addresses.ts";

/** The longest text that is an address. */
const maxAddressLength = 45;

/** A block in one of the two families. */
export interface AddressBlock {
  address: IPv4 | IPv6;
  prefix: number;
}

/** Reads `10.0.0.0/24` or `2001:db8::/32`, or a single address; `undefined` for anything else. */
export function parseBlock(text: string): AddressBlock | undefined {
  if (text.length > maxAddressLength + 4) return undefined;
  const [host = "", length, ...more] = text.split("/");
  const address = readAddress(host);
  if (address === undefined || more.length > 0 || (length !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(length))) return undefined;
  const bits = address.kind() === "ipv4" ? 32 : 128;
  // ::ffff:10.0.0.0/104 is 10.0.0.0/8
  const wrapped = bits === 32 && host.includes(":") ? 96 : 0;
  const prefix = length === undefined ? bits : Number(length) - wrapped;
  return prefix < 0 || prefix > bits ? undefined : { address, prefix };
}

/** Whether a text is an address of the block. A text that is no address is in none. */
export function isWithin(text: string, { address: base, prefix }: AddressBlock): boolean {
  if (text.length > maxAddressLength) return false;
  const address = readAddress(text);
  return address !== undefined && address.kind() === base.kind() && address.match(base, prefix);
}
