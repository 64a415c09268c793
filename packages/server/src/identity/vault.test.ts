import { chmodSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "@millrace/testkit";
import { afterAll, describe, expect, it } from "vitest";
import { createVault, openVault, readKeyFile, VaultError } from "./vault.ts";

const older = Buffer.alloc(32, 1).toString("base64");
const newer = Buffer.alloc(32, 2).toString("hex");
const folder = scratch("vault");
afterAll(() => folder.remove());

describe("vault", () => {
  it("P5: a sealed secret shows nothing of itself, differs each time and opens again", () => {
    const vault = createVault([older]);
    const [one, two] = [vault.seal("whsec_secret", "owner"), vault.seal("whsec_secret", "owner")];
    expect(one).not.toBe(two);
    expect(one).not.toContain("secret");
    expect(vault.open(one, "owner")).toBe("whsec_secret");
    expect(vault.open(vault.seal("", "o"), "o")).toBe("");
  });

  it("P5: a sealed secret opens for its owner alone, and not at all once a bit of it changed", () => {
    const vault = createVault([older]);
    const sealed = vault.seal("secret", "a");
    expect(() => vault.open(sealed, "b")).toThrow(VaultError);
    const bytes = Buffer.from(sealed.slice(12), "base64url");
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Uint8Array.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => vault.open(sealed.slice(0, 12) + Buffer.from(changed).toString("base64url"), "a")).toThrow(VaultError);
    }
    expect(() => vault.open(sealed.slice(0, 20), "a")).toThrow(VaultError);
  });

  it("P5: after a rotation the newest key seals and the older ones still open", () => {
    const sealed = createVault([older]).seal("secret", "a");
    const rotated = createVault([newer, older]);
    expect(rotated.open(sealed, "a")).toBe("secret");
    expect(createVault([newer]).open(rotated.seal("next", "a"), "a")).toBe("next");
  });

  it("P5: a wrong key is told at start-up, with what to do and without any key", () => {
    const sealed = createVault([older]).seal("secret", "a");
    const wrong = createVault([newer]);
    expect(() => wrong.check([sealed.slice(0, 12)])).toThrow(/add the former key to MILLRACE_ENCRYPTION_KEY/);
    expect(() => createVault([newer, older]).check([sealed])).not.toThrow();
    for (const bad of ["", "short", `${older}${older}`, "z".repeat(64)]) {
      expect(() => createVault([bad])).toThrow(/must be 32 bytes in base64 or hex; make one with: openssl rand -base64 32/);
    }
  });

  it("P5: PostgreSQL without a key is a start-up error that says how to make one", () => {
    expect(() => openVault({ keys: [], keyFile: null })).toThrow(/required on PostgreSQL; make one with: openssl/);
  });

  it("P5: beside SQLite a key file of mode 0600 is made once and then used", () => {
    const path = join(folder.path, "secret.key");
    const sealed = openVault({ keys: [], keyFile: path }).seal("secret", "a");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(openVault({ keys: [], keyFile: path }).open(sealed, "a")).toBe("secret");
    chmodSync(path, 0o640);
    expect(() => readKeyFile(path)).toThrow(/may be read by others: run chmod 600/);
  });

  it("P5: a key that is given wins over the key file, which is then not made", () => {
    const path = join(folder.path, "unused.key");
    openVault({ keys: [newer], keyFile: path });
    expect(existsSync(path)).toBe(false);
  });

  it("A5: signatures hold for one purpose and one text, also under an older key", () => {
    const signature = createVault([older]).sign("token", "text");
    const rotated = createVault([newer, older]);
    expect(rotated.verify("token", "text", signature)).toBe(true);
    expect(rotated.verify("token", "text2", signature)).toBe(false);
    expect(rotated.verify("other", "text", signature)).toBe(false);
    expect(rotated.verify("token", "text", "")).toBe(false);
    expect(createVault([newer]).verify("token", "text", signature)).toBe(false);
  });
});
