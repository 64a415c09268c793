import { describe, expect, it } from "vitest";
import { createVault } from "../identity/vault.ts";
import { createTopicTokens } from "./tokens.ts";

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
const open = (...keys: string[]) => createTopicTokens({ vault: createVault(keys), publicUrl: () => "https://millrace.example.com" });
const id = "01999f3c-7a1e-7b2a-9c4d-00000000002a";
const until = 1_800_000_000_123;
const tokenOf = (url: string): string => new URL(url).searchParams.get("token") ?? "";

describe("the links of topic subscriptions", () => {
  it("T2, T6: a token says whom it is for and until when, and is the same each time it is made", () => {
    const tokens = open(key(1));
    const { token, url } = tokens.confirmation(id, until);
    expect(url).toBe(`https://millrace.example.com/v1/confirm?token=${token}`);
    expect(tokens.confirmation(id, until).token).toBe(token);
    expect(tokens.readConfirmation(token)).toEqual({ subscriptionId: id, until });
    expect(tokens.readUnsubscribe(tokenOf(tokens.unsubscribeUrl(id)))).toEqual({ subscriptionId: id });
  });

  it("T2: no other text is a token: changed, cut, of another key, of the other purpose", () => {
    const tokens = open(key(1));
    const { token } = tokens.confirmation(id, until);
    const unsubscribe = tokenOf(tokens.unsubscribeUrl(id));
    for (let at = 0; at < token.length - 1; at++) {
      const changed = token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
      expect(tokens.readConfirmation(changed), `character ${at}`).toBeNull();
    }
    for (const text of ["", "x", token.slice(1), token.slice(0, -2), `${token}AAAA`, unsubscribe, "é".repeat(73)])
      expect(tokens.readConfirmation(text)).toBeNull();
    expect(tokens.readUnsubscribe(token)).toBeNull();
    expect(open(key(2)).readConfirmation(token)).toBeNull();
  });

  it("T2: a token stays good after the server's key was replaced, while the former one is known", () => {
    const { token } = open(key(1)).confirmation(id, until);
    expect(open(key(2), key(1)).readConfirmation(token)).toEqual({ subscriptionId: id, until });
  });

  it("T2: links lead to where others reach the server, and below it when that has a path", () => {
    for (const publicUrl of ["https://example.com/millrace", "https://example.com/millrace/"]) {
      const tokens = createTopicTokens({ vault: createVault([key(1)]), publicUrl: () => publicUrl });
      expect(tokens.confirmation(id, until).url).toMatch(/^https:\/\/example\.com\/millrace\/v1\/confirm\?token=/);
      expect(tokens.unsubscribeUrl(id)).toMatch(/^https:\/\/example\.com\/millrace\/v1\/unsubscribe\?token=/);
    }
  });
});
