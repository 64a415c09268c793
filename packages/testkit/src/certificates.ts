/**
 * A certificate authority for tests, written in process: no tool has to be installed. Certificates are X.509 version 3 (RFC 5280)
 * with P-256 keys. Trust its `ca` and nothing else, and a leaf is good exactly for the names it was issued for.
 */
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { bits, bool, explicit, instant, integer, octets, oid, sequence, set, tagged, text } from "./der.ts";

/** What a TLS server needs, as PEM. */
export interface Leaf {
  key: string;
  cert: string;
}

/** A test CA. */
export interface Certificates {
  /** The authority's own certificate (PEM), for a client's `ca`. */
  ca: string;
  /** A certificate for these names or addresses, valid for a day around now unless `from` and `until` (milliseconds) say otherwise. */
  issue(names: string | readonly string[], validity?: { from?: number; until?: number }): Leaf;
  /** Right names, but it ended yesterday. */
  expired(names: string | readonly string[]): Leaf;
  /** Right names, signed by nobody else. */
  selfSigned(names: string | readonly string[]): Leaf;
  /** A good certificate for `elsewhere.example`. */
  wrongName(): Leaf;
}

const day = 86_400_000;
const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));
const commonName = (name: string): Uint8Array => sequence(set(sequence(oid("2.5.4.3"), text(name))));
const extension = (id: string, critical: boolean, value: Uint8Array): Uint8Array =>
  sequence(oid(id), ...(critical ? [bool(true)] : []), octets(value));

function alternative(name: string): Uint8Array {
  if (isIP(name) === 4) return tagged(0x87, Uint8Array.from(name.split(".").map(Number)));
  if (isIP(name) === 6) throw new Error(`certificates: no IPv6 addresses (${name})`);
  return tagged(0x82, new TextEncoder().encode(name));
}

interface Wanted {
  subject: string;
  issuer: string;
  publicKey: KeyObject;
  signer: KeyObject;
  from: number;
  until: number;
  names: readonly string[] | "authority";
}

function write(wanted: Wanted): string {
  const authority = wanted.names === "authority";
  const usage = authority ? bits(Uint8Array.of(0b0000_0110), 1) : bits(Uint8Array.of(0b1000_0000), 7);
  const extensions = [
    extension("2.5.29.19", true, sequence(...(authority ? [bool(true)] : []))),
    extension("2.5.29.15", true, usage),
    ...(wanted.names === "authority"
      ? []
      : [
          extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1"))),
          extension("2.5.29.17", false, sequence(...wanted.names.map(alternative))),
        ]),
  ];
  const serial = Uint8Array.of(1, ...randomBytes(12));
  const body = sequence(
    explicit(0, integer(Uint8Array.of(2))),
    integer(serial),
    ecdsaWithSha256,
    commonName(wanted.issuer),
    sequence(instant(wanted.from), instant(wanted.until)),
    commonName(wanted.subject),
    Uint8Array.from(wanted.publicKey.export({ type: "spki", format: "der" })),
    explicit(3, sequence(...extensions)),
  );
  const whole = sequence(body, ecdsaWithSha256, bits(Uint8Array.from(sign("sha256", body, wanted.signer))));
  const lines =
    Buffer.from(whole)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function leaf(names: string | readonly string[], from: number, until: number, by?: { name: string; key: KeyObject }): Leaf {
  const list = typeof names === "string" ? [names] : names;
  const subject = list[0] ?? "nobody";
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const cert = write({
    subject,
    issuer: by?.name ?? subject,
    publicKey: createPublicKey(privateKey),
    signer: by?.key ?? privateKey,
    from,
    until,
    names: list,
  });
  return { key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(), cert };
}

/** Makes an authority of its own; two of them do not trust each other. */
export function certificates(): Certificates {
  const name = "Millrace test authority";
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const now = Date.now();
  const by = { name, key: privateKey };
  return {
    ca: write({
      subject: name,
      issuer: name,
      publicKey,
      signer: privateKey,
      from: now - 30 * day,
      until: now + 30 * day,
      names: "authority",
    }),
    issue: (names, validity = {}) => leaf(names, validity.from ?? now - day, validity.until ?? now + day, by),
    expired: (names) => leaf(names, now - 3 * day, now - day, by),
    selfSigned: (names) => leaf(names, now - day, now + day),
    wrongName: () => leaf("elsewhere.example", now - day, now + day, by),
  };
}
