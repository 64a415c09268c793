/** A name service for tests: answers from a table, so that a name such as hooks.example.com can lead to a loopback receiver. */
import { isIP } from "node:net";

/** An address as `node:dns` answers it. */
export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** Resolves a name to all of its addresses; rejects with the code `ENOTFOUND` for a name it does not know. */
export type Resolve = (hostname: string) => Promise<ResolvedAddress[]>;

/** An address, several, or a function asked at every look-up (to change the answer between two of them). */
export type ResolverEntry = string | readonly string[] | (() => string | readonly string[]);

/** Answers from `map` alone; `map` may be changed while in use. Every name that was asked for is kept in `asked`. */
export function resolver(map: Record<string, ResolverEntry>): Resolve & { asked: string[] } {
  const asked: string[] = [];
  const resolve: Resolve = async (hostname) => {
    asked.push(hostname);
    const entry = Object.hasOwn(map, hostname) ? map[hostname] : undefined;
    const given = typeof entry === "function" ? entry() : entry;
    const addresses = given === undefined ? [] : typeof given === "string" ? [given] : given;
    if (addresses.length === 0) throw Object.assign(new Error(`ENOTFOUND ${hostname}`), { code: "ENOTFOUND" });
    return addresses.map((address) => ({ address, family: isIP(address) === 6 ? 6 : 4 }));
  };
  return Object.assign(resolve, { asked });
}
