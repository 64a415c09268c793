import { expect, it } from "vitest";
import { createVault } from "../identity/vault.ts";
import { type ExecutionToken, readToken, writeToken } from "./token.ts";

const vault = createVault([Buffer.alloc(32, 1).toString("base64")]);
const token: ExecutionToken = {
  handout: { runNo: 7, queueNo: 3, seq: Number.MAX_SAFE_INTEGER, receipt: 2 ** 51 + 1 },
  told: true,
  pull: false,
};

it("W6: a token says by which hand-out a run is executed, to the last digit", () => {
  expect(readToken(vault, writeToken(vault, token))).toEqual(token);
});

it("W6: a token that was changed, made up or signed by another server proves nothing", () => {
  const genuine = writeToken(vault, token);
  const other = writeToken(vault, { ...token, handout: { ...token.handout, runNo: 8 } });
  const [text] = other.split(".");
  const [, signature] = genuine.split(".");
  for (const forged of ["", ".", "7-3-1-1-0-0", `${text}.${signature}`, genuine.slice(0, -1), `${genuine}x`, genuine.replace(".", "..")])
    expect(readToken(vault, forged)).toBe(null);
  const stranger = createVault([Buffer.alloc(32, 2).toString("base64")]);
  expect(readToken(vault, writeToken(stranger, token))).toBe(null);
});
