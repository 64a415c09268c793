/**
 * Which IP addresses a delivery may go to (P19, P21). An address is allowed only when it is known to be public unicast, in every form it
 * is wrapped in; what cannot be read is refused. Cloud metadata addresses stay refused inside an opened block: only naming the
 * single address opens one.
 */
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A parsed CIDR block. */
export type Block = [address: Address, prefix: number];

/** Where clouds serve credentials; some of these are public by their range. */
const metadata = [
  "169.254.169.254", // AWS, Google Cloud, Azure, Oracle, DigitalOcean, OpenStack
  "169.254.170.2", // AWS container credentials
  "169.254.170.23", // AWS pod identity
  "169.254.42.42", // Scaleway
  "169.254.0.23", // Tencent Cloud
  "168.63.129.16", // Azure's wire server
  "100.100.100.200", // Alibaba Cloud
  "192.0.0.192", // Oracle Cloud, classic
  "fd00:ec2::254", // AWS
  "fd00:ec2::23", // AWS pod identity
  "fd20:ce::254", // Google Cloud
  "fd00:42::42", // Scaleway
].map((text) => ipaddr.parse(text).toNormalizedString());
const metadataAddresses: ReadonlySet<string> = new Set(metadata);

/** Ranges that a host named in `allowHosts` may resolve to. */
const insideRanges: ReadonlySet<string> = new Set(["private", "loopback", "uniqueLocal", "carrierGradeNat"]);

/** Reads a block such as `10.0.0.0/8`, or a single address. Throws `Error` on anything else. */
export function parseBlock(text: string): Block {
  if (text.includes("/")) return ipaddr.parseCIDR(text);
  const address = ipaddr.parse(text);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

function inHexadecimal(text: string): string | undefined {
  try {
    return new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    return undefined;
  }
}

/** An address of strict form (dotted quad or RFC 4291), IPv4-mapped ones unwrapped; `undefined` for anything else, zones included. */
export function readAddress(text: string): Address | undefined {
  if (text.includes("%")) return undefined;
  if (!text.includes(":")) return ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text) : undefined;
  // The library takes `::1.2.3.4` for an IPv4-mapped address: only the form in hexadecimal reads the same everywhere.
  const plain = text.includes(".") ? inHexadecimal(text) : text;
  if (plain === undefined || !ipaddr.IPv6.isValid(plain)) return undefined;
  const address = ipaddr.IPv6.parse(plain);
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

const at = (bytes: readonly number[], from: number, flip = 0): ipaddr.IPv4 =>
  new ipaddr.IPv4(bytes.slice(from, from + 4).map((byte) => byte ^ flip));

/** The IPv4 addresses that an IPv6 address carries inside it; `null` when it is of a form that never leads anywhere public. */
function carried(address: ipaddr.IPv6): ipaddr.IPv4[] | null {
  const bytes = address.toByteArray();
  const [a, b] = address.parts as [number, number];
  if (a === 0x2002) return [at(bytes, 2)]; // 6to4
  if (a === 0x2001 && b === 0) return [at(bytes, 4), at(bytes, 12, 0xff)]; // Teredo: its server, and the client with flipped bits
  if (a === 0x64 && b === 0xff9b) return bytes.slice(4, 12).every((byte) => byte === 0) ? [at(bytes, 12)] : null; // NAT64; not its local block
  return a === 0 ? null : []; // ::/16: unspecified, loopback, IPv4-compatible, translated
}

/** Whether the address is public unicast, all the way in. */
export function isPublic(address: Address): boolean {
  if (metadataAddresses.has(address.toNormalizedString())) return false;
  if (address instanceof ipaddr.IPv4) return address.range() === "unicast";
  const inner = carried(address);
  if (inner === null || !inner.every(isPublic)) return false;
  if (inner.length > 0) return true;
  // Only 2000::/3 is handed out for global unicast; the library calls unicast whatever it has no name for.
  return address.range() === "unicast" && ((address.parts[0] as number) & 0xe000) === 0x2000;
}

function inside(address: Address, [network, prefix]: Block): boolean {
  return address.kind() === network.kind() && address.match(network, prefix);
}

/** What a policy opens for one host: blocks, and whether the host's own name stands in `allowHosts`. */
export interface Opened {
  blocks: readonly Block[];
  hostNamed: boolean;
}

/**
 * Whether the policy opens the address: it lies in a block, or the host is named and the address is private, loopback, unique-local
 * or shared (never link-local, multicast or metadata).
 */
export function addressOpened(text: string, opened: Opened): boolean {
  const address = readAddress(text);
  if (address === undefined) return false;
  const isMetadata = metadataAddresses.has(address.toNormalizedString());
  const single = address.kind() === "ipv4" ? 32 : 128;
  if (opened.blocks.some((block) => inside(address, block) && (!isMetadata || block[1] === single))) return true;
  return opened.hostNamed && !isMetadata && insideRanges.has(address.range());
}

/** Whether a connection may go to the address: it is public, or opened. */
export function addressAllowed(text: string, opened: Opened): boolean {
  const address = readAddress(text);
  return address !== undefined && (isPublic(address) || addressOpened(text, opened));
}

/** One form for every way to write an address, for comparing; `undefined` when it is none. */
export function sameForm(text: string): string | undefined {
  return readAddress(text)?.toNormalizedString();
}
