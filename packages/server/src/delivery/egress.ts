/**
 * The guard of outgoing connections (P19): one look-up of the name per connection, and every address it leads to must be allowed, or
 * nothing is dialled. Whatever goes wrong inside the guard counts as a refusal. What it says never names an address.
 */
import { lookup, Resolver } from "node:dns/promises";
import { addressAllowed } from "./addresses.ts";
import type { Egress, Target } from "./target.ts";
import type { FailureClass } from "./types.ts";

/** An address as `node:dns` answers it. */
export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** Resolves a name to all of its addresses. Rejects with a DNS error code (`ENOTFOUND`) when there are none. */
export type Resolve = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** Why nothing was sent or no answer came. */
export interface Failure {
  class: FailureClass;
  /** At most 200 characters, without addresses or anything of the endpoint's. */
  message: string;
  /** What the system calls it, such as `ECONNREFUSED`, where it has a name. */
  code?: string;
}

/** More addresses than any honest name has. */
const maxAddresses = 256;

/** How long the name servers of the machine are taken for granted. */
const serversForMs = 60_000;

/** What a name service answers when it has no answer; anything else that a resolver throws is a fault of the guard. */
const dnsCodes: ReadonlySet<unknown> = new Set([
  "ENOTFOUND",
  "ENODATA",
  "ENONAME",
  "ESERVFAIL",
  "EFORMERR",
  "ENOTIMP",
  "EREFUSED",
  "EBADRESP",
  "ECONNREFUSED",
  "ETIMEOUT",
  "ECANCELLED",
  "EAI_AGAIN",
  "EAI_FAIL",
  "EAI_NODATA",
  "EAI_NONAME",
]);

const refused = (message: string): { failure: Failure } => ({ failure: { class: "refused", message } });
const unresolved: { failure: Failure } = {
  failure: { class: "connection", message: "the host name does not resolve", code: "ENOTFOUND" },
};

/** The addresses that a connection to `target` may use, all of them checked, or why there is none. Never rejects. */
export async function vet(
  target: Target,
  egress: Egress,
  resolve: Resolve,
): Promise<{ addresses: readonly ResolvedAddress[] } | { failure: Failure }> {
  try {
    const opened = { blocks: egress.blocks, hostNamed: target.hostNamed };
    if (target.literal) {
      if (!addressAllowed(target.host, opened)) return refused("the address is not one that may be called");
      return { addresses: [{ address: target.host, family: target.host.includes(":") ? 6 : 4 }] };
    }
    let found: readonly ResolvedAddress[];
    try {
      found = await resolve(target.host);
    } catch (error) {
      return dnsCodes.has((error as { code?: unknown } | null)?.code) ? unresolved : refused("the host name could not be checked");
    }
    if (found.length === 0) return unresolved;
    if (found.length > maxAddresses || !found.every(({ address }) => addressAllowed(address, opened))) {
      return refused("the host name leads to an address that may not be called");
    }
    return { addresses: found.map(({ address }) => ({ address, family: address.includes(":") ? 6 : 4 })) };
  } catch {
    return refused("the endpoint could not be checked");
  }
}

/**
 * The machine's name service. Names that `named` knows (those an operator opened) may stand in its hosts file and are looked up as any
 * program does; all others are asked of DNS alone, without a thread that a slow answer could hold. `now`: monotonic milliseconds.
 */
export function systemResolve(named: (hostname: string) => boolean, now: () => number): Resolve {
  // A resolver knows the name servers of the moment it was made; made anew now and then, it follows a machine that changes networks.
  let dns = new Resolver({ timeout: 3000, tries: 2 });
  let madeMs = now();
  return async (hostname) => {
    if (named(hostname)) {
      return (await lookup(hostname, { all: true, verbatim: true })).map(({ address, family }) => ({
        address,
        family: family === 6 ? 6 : 4,
      }));
    }
    if (now() - madeMs > serversForMs) {
      dns = new Resolver({ timeout: 3000, tries: 2 });
      madeMs = now();
    }
    const [four, six] = await Promise.allSettled([dns.resolve4(hostname), dns.resolve6(hostname)]);
    const found: ResolvedAddress[] = [];
    if (four.status === "fulfilled") found.push(...four.value.map((address) => ({ address, family: 4 as const })));
    if (six.status === "fulfilled") found.push(...six.value.map((address) => ({ address, family: 6 as const })));
    if (found.length === 0 && four.status === "rejected") throw four.reason;
    return found;
  };
}
