/**
 * The links of a topic subscription (T2, T6): a token is who it is for, until when if it ends, and 256 bits that only the server's key
 * can make. Nothing is stored for them, and they stay good while the key is known. They are compared in constant time.
 */
import type { Vault } from "../identity/vault.ts";

/** Makes and reads the tokens, and the links around them. */
export interface TopicTokens {
  /** The handshake's, good until then (milliseconds since 1970). */
  confirmation(subscriptionId: string, until: number): { token: string; url: string };
  unsubscribeUrl(subscriptionId: string): string;
  /** What a token says; `null` when it was not made here. Whether it has ended is for the store's clock to say. */
  readConfirmation(token: string): { subscriptionId: string; until: number } | null;
  readUnsubscribe(token: string): { subscriptionId: string } | null;
}

const CONFIRM = "confirm a topic subscription";
const UNSUBSCRIBE = "end a topic subscription";
const ID_BYTES = 16;
const UNTIL_BYTES = 6;

const hexOf = (id: string): string => id.replaceAll("-", "");
const idOf = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

/** Makes the tokens of one server. `publicUrl` is where others reach it, with or without a path. */
export function createTopicTokens(deps: { vault: Pick<Vault, "sign" | "verify">; publicUrl: () => string }): TopicTokens {
  const { vault } = deps;
  const publicUrl = (): string => deps.publicUrl().replace(/\/$/, "");
  const tokenOf = (purpose: string, bytes: Buffer): string => {
    const head = bytes.toString("base64url");
    return head + vault.sign(purpose, head);
  };
  /** The `length` signed bytes of a token; `null` when it was not signed for this purpose. */
  const read = (purpose: string, token: string, length: number): Buffer | null => {
    const cut = Math.ceil((length * 4) / 3);
    const head = token.slice(0, cut);
    return vault.verify(purpose, head, token.slice(cut)) ? Buffer.from(head, "base64url") : null;
  };

  return {
    confirmation(subscriptionId, until) {
      const bytes = Buffer.alloc(ID_BYTES + UNTIL_BYTES);
      bytes.write(hexOf(subscriptionId), "hex");
      bytes.writeUIntBE(until, ID_BYTES, UNTIL_BYTES);
      const token = tokenOf(CONFIRM, bytes);
      return { token, url: `${publicUrl()}/v1/confirm?token=${token}` };
    },
    unsubscribeUrl(subscriptionId) {
      return `${publicUrl()}/v1/unsubscribe?token=${tokenOf(UNSUBSCRIBE, Buffer.from(hexOf(subscriptionId), "hex"))}`;
    },
    readConfirmation(token) {
      const bytes = read(CONFIRM, token, ID_BYTES + UNTIL_BYTES);
      if (bytes === null) return null;
      return { subscriptionId: idOf(bytes.toString("hex", 0, ID_BYTES)), until: bytes.readUIntBE(ID_BYTES, UNTIL_BYTES) };
    },
    readUnsubscribe(token) {
      const bytes = read(UNSUBSCRIBE, token, ID_BYTES);
      return bytes === null ? null : { subscriptionId: idOf(bytes.toString("hex")) };
    },
  };
}
