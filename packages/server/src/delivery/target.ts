/**
 * The rules for a URL that is to be called (P18): checked when it is stored, and again before it is dialled. The raw text is checked
 * beside the parsed URL, because parsers disagree about, or hide, exactly what makes a URL dangerous.
 */
import { Fault } from "@millrace/contract";
import { addressAllowed, addressOpened, type Block, parseBlock, readAddress } from "./addresses.ts";
import type { EgressPolicy } from "./types.ts";

/** The longest URL, in characters of the text as given. */
export const maxUrlLength = 2048;

/** Domains that are never public, or that the source of the format keeps for itself. */
const closedDomains = ["localhost", "local", "internal", "test", "svc", "ezghcloud.com", "ezgh.app"];

/** A URL that passed, taken apart for dialling. */
export interface Target {
  scheme: "http" | "https";
  /** Lower case, ASCII, without a trailing dot or brackets: for SNI, the certificate check and the resolver. */
  host: string;
  port: number;
  /** The host is an address. */
  literal: boolean;
  /** The host stands in `allowHosts`. */
  hostNamed: boolean;
  /** `Host` header: without the trailing dot, the port only when it is not the scheme's. */
  authority: string;
  /** Path and query. */
  path: string;
  /** Scheme and authority: what may share a connection. */
  endpoint: string;
}

/** A policy made ready for use. */
export interface Egress {
  hosts: ReadonlySet<string>;
  blocks: readonly Block[];
  ports: ReadonlySet<number>;
  allowHttp: boolean;
  closed: readonly string[];
}

/** A host name as it is compared: lower case, ASCII, without the trailing dot or brackets. */
function plainHost(host: string): string {
  let name = host;
  try {
    name = new URL(`http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}/`).hostname;
  } catch {
    // A name that no URL can hold matches no URL.
  }
  return name
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "")
    .toLowerCase();
}

const ready = new WeakMap<EgressPolicy, Egress>();

/** Prepares a policy once; a policy is not changed afterwards. Throws `Error` on a block that is not a CIDR. */
export function egressOf(policy: EgressPolicy): Egress {
  let egress = ready.get(policy);
  if (egress === undefined) {
    egress = {
      hosts: new Set(policy.allowHosts.map(plainHost)),
      blocks: policy.allowCidrs.map(parseBlock),
      ports: new Set(policy.allowPorts),
      allowHttp: policy.allowHttp,
      closed: [...closedDomains, ...policy.ownHosts.map(plainHost)],
    };
    ready.set(policy, egress);
  }
  return egress;
}

function refuse(path: string, bound: string, got: string): Fault {
  return new Fault("invalid_target", `${path}: ${bound}`, { path, bound, got: got.slice(0, 100) });
}

/** Checks a target for storing; `path` names the field it came in. Throws `Fault` `invalid_target`, naming the rule that was broken. */
export function checkTarget(url: string, policy: EgressPolicy, path = "target.url"): void {
  readTarget(url, policy, path);
}

/** Checks a target and takes it apart. Throws like `checkTarget`. */
export function readTarget(url: string, policy: EgressPolicy, field = "target.url"): Target {
  const egress = egressOf(policy);
  // Whatever stands before an @ may be a password.
  const shown = url.slice(url.lastIndexOf("@") + 1);
  const no = (bound: string): Fault => refuse(field, bound, shown);

  if (url.length > maxUrlLength) throw no(`at most ${maxUrlLength.toLocaleString("en")} characters`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  if (/[\u0000-\u0020\u007f-\u00a0\u2028\u2029\u3000\ufeff\\]/u.test(url) || /\s/u.test(url) || /\p{Surrogate}/u.test(url))
    throw no("no space, control character or backslash");
  const raw = /^([a-z]+):\/\/([^/?#]*)/i.exec(url);
  if (raw === null || raw[2] === "") throw no("an absolute https:// URL with a host");
  const scheme = (raw[1] as string).toLowerCase();
  if (scheme !== "https" && !(scheme === "http" && egress.allowHttp)) throw no("https:// only");
  const rawAuthority = raw[2] as string;
  if (rawAuthority.includes("@")) throw no("no user name or password");
  if (url.includes("#")) throw no("no fragment");

  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw no("a URL with a valid host");
  }
  if (parsed.username !== "" || parsed.password !== "") throw no("no user name or password");
  if (parsed.hash !== "") throw no("no fragment");

  const bracketed = parsed.hostname.startsWith("[");
  const written = (bracketed ? rawAuthority.slice(rawAuthority.lastIndexOf("]") + 1) : rawAuthority).match(/:(.*)$/)?.[1];
  if (written !== undefined && !/^[1-9]\d{0,4}$/.test(written)) throw no("port 443, left out or written plainly");
  const own = scheme === "https" ? 443 : 80;
  const port = parsed.port === "" ? own : Number(parsed.port);
  if (port !== own && !(port === 443 && scheme === "https") && !egress.ports.has(port)) throw no("port 443 only");

  const host = plainHost(parsed.hostname);
  const hostNamed = egress.hosts.has(host);
  const literal = bracketed || readAddress(host) !== undefined;
  if (literal) {
    // Being public is not enough for an address: it must be opened as what it is.
    const opened = { blocks: egress.blocks, hostNamed };
    if (!addressOpened(host, opened) && !(hostNamed && addressAllowed(host, opened)))
      throw no("a public DNS name, not an IP address in any notation");
  } else checkName(host, hostNamed, egress, no);

  const shownHost = bracketed ? `[${host}]` : host;
  const authority = port === own ? shownHost : `${shownHost}:${port}`;
  return {
    scheme,
    host,
    port,
    literal,
    hostNamed,
    authority,
    path: parsed.pathname + parsed.search,
    endpoint: `${scheme}://${authority}`,
  };
}

function checkName(host: string, hostNamed: boolean, egress: Egress, no: (bound: string) => Fault): void {
  if (host.length > 253) throw no("a host name of at most 253 characters");
  const labels = host.split(".");
  for (const label of labels) {
    if (label.length > 63) throw no("host name labels of at most 63 characters");
    if (label === "") throw no("a host name without empty labels");
  }
  if (hostNamed) return;
  if (labels.some((label) => !/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(label))) {
    throw no("a host name of letters, digits and hyphens");
  }
  for (const domain of egress.closed) {
    if (host === domain || host.endsWith(`.${domain}`)) throw no(`a public DNS name, not ${domain} or a name under it`);
  }
  if (labels.length < 2) throw no("a public DNS name, not a single label");
}
