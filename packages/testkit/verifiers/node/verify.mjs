// Checks the signature of a push delivery. Works on the raw bytes of the body: parse them only when this answered true.
import { createHmac, timingSafeEqual } from "node:crypto";

const toleranceSeconds = 300;
const mostSignatures = 16;

/**
 * `header` is `EZGH-Signature`, `body` the raw bytes, `secrets` the signing secrets (`whsec_…`; during a rotation the new and the
 * previous one), `nowMs` the time. Answers true or false, and never throws, whatever the header holds.
 */
export function verify(header, body, secrets, nowMs = Date.now()) {
  const read = readHeader(header);
  if (read === undefined) return false;
  if (Math.abs(Math.floor(nowMs / 1000) - read.seconds) > toleranceSeconds) return false;
  let genuine = false;
  for (const secret of secrets) {
    if (!secret.startsWith("whsec_")) continue;
    const key = Buffer.from(secret.slice("whsec_".length), "base64url");
    if (key.length !== 32) continue;
    const expected = createHmac("sha256", key).update(`${read.seconds}.`).update(body).digest();
    for (const signature of read.signatures) if (timingSafeEqual(signature, expected)) genuine = true;
  }
  return genuine;
}

/** `t=<seconds>,v1=<hex>[,v1=<hex>]`: exactly one `t`, 1 to 16 `v1`. What else it may hold one day is passed over. */
function readHeader(header) {
  const times = [];
  const signatures = [];
  for (const part of String(header ?? "").split(",")) {
    const [, name, value] = /^ *(t|v1)=(.*?) *$/.exec(part) ?? [];
    if (name === "t") times.push(value);
    if (name === "v1" && /^[0-9a-f]{64}$/.test(value)) signatures.push(Buffer.from(value, "hex"));
  }
  if (times.length !== 1 || !/^[0-9]{1,15}$/.test(times[0])) return undefined;
  if (signatures.length === 0 || signatures.length > mostSignatures) return undefined;
  return { seconds: Number(times[0]), signatures };
}
