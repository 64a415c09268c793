/** Reads `Idempotency-Key` (Q12). Two requests are the same when their bodies are equal byte for byte; reordered JSON is another body. */
import { createHash } from "node:crypto";
import { invalid } from "@millrace/contract";
import type { IdempotencyKey } from "../store/types.ts";

const FORM = /^[\x20-\x7e]{1,255}$/;

/**
 * The key of a request; `null` without the header. `path` has the decoded path parameters in it, so that it names organization,
 * project and queue. Throws `invalid_request`.
 */
export function readIdempotencyKey(
  header: string | string[] | undefined,
  operation: string,
  path: string,
  body: Uint8Array,
): IdempotencyKey | null {
  if (header === undefined) return null;
  if (typeof header !== "string" || !FORM.test(header)) {
    throw invalid("Idempotency-Key", "must be 1 to 255 printable ASCII characters", typeof header === "string" ? header.length : "several");
  }
  return { scope: `${operation} ${path}`, key: header, hash: createHash("sha256").update(body).digest("hex") };
}
