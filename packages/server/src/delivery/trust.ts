/** The machine's own trust store (P20), where it keeps one as a file; elsewhere the authorities that come with Node are used. */
import { readFileSync } from "node:fs";

/** Where Linux distributions, the BSDs and macOS keep all trusted authorities in one PEM file. */
const bundles = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

function pem(path: string | undefined): string | undefined {
  if (path === undefined || path === "") return undefined;
  try {
    const text = readFileSync(path, "utf8");
    return text.includes("-----BEGIN CERTIFICATE-----") ? text : undefined;
  } catch {
    return undefined;
  }
}

/**
 * PEM texts of the trusted authorities: the file that `SSL_CERT_FILE` names or else the system's, and those of `NODE_EXTRA_CA_CERTS`.
 * `undefined` where there is no such file: Node's own list applies.
 */
export function systemTrust(env: Record<string, string | undefined> = process.env): readonly string[] | undefined {
  const system = [env.SSL_CERT_FILE, ...bundles].map(pem).find((text) => text !== undefined);
  const extra = pem(env.NODE_EXTRA_CA_CERTS);
  if (system === undefined) return undefined;
  return extra === undefined ? [system] : [system, extra];
}
