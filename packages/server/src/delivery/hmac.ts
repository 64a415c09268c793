/** HMAC-SHA256 for the push formats, which do no cryptography of their own. */
import { createHmac } from "node:crypto";
import type { Hmac } from "@millrace/contract/wire";

/** The digest over all parts in turn. */
export const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
