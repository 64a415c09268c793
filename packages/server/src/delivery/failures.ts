/** How a broken connection is named: its class and a sentence of our own. The texts of errors are never passed on: they hold addresses. */
import type { Failure } from "./egress.ts";

const tlsCode =
  /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CRL_|ERROR_IN_C|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|HOSTNAME_MISMATCH|EPROTO)/;

const known: Record<string, string> = {
  CERT_HAS_EXPIRED: "the certificate has expired",
  CERT_NOT_YET_VALID: "the certificate is not valid yet",
  CERT_REVOKED: "the certificate was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the certificate's authority is not trusted",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "the certificate's authority is not trusted",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the certificate's authority is not trusted, or the chain is incomplete",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
  ECONNREFUSED: "the endpoint refused the connection",
  ECONNRESET: "the endpoint reset the connection",
  EPIPE: "the endpoint closed the connection",
  EHOSTUNREACH: "the endpoint cannot be reached",
  ENETUNREACH: "the endpoint cannot be reached",
  ETIMEDOUT: "the endpoint cannot be reached",
};

/** The class and the sentence for whatever a socket or TLS threw. */
export function failureOf(error: unknown): Failure {
  const code = (error as { code?: unknown } | null)?.code;
  const name = typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code) ? code : "";
  const sentence = known[name];
  if (tlsCode.test(name)) return { class: "tls", message: `${sentence ?? "the TLS handshake failed"} (${name})`, code: name };
  const named = name === "" ? {} : { code: name };
  return { class: "connection", message: `${sentence ?? "the connection failed"}${name === "" ? "" : ` (${name})`}`, ...named };
}
