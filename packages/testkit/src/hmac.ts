/** HMAC-SHA256 for tests that build what the wire formats of the contract sign. */
import { createHmac } from "node:crypto";
import type { Hmac } from "@millrace/contract/wire";

/** The digest of the parts in turn, by `node:crypto`. */
export const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
