import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findConnection } from "./connection.ts";

const dev = { url: "http://127.0.0.1:7411", apiKey: "dev-key", organization: "dev", project: "dev" };

function beside(file: string | undefined): string {
  const directory = mkdtempSync(join(tmpdir(), "millrace-connection-"));
  mkdirSync(join(directory, ".millrace"));
  if (file !== undefined) writeFileSync(join(directory, ".millrace", "dev.json"), file);
  return directory;
}

describe("finding the server", () => {
  it("A17: flags win over variables, variables over the dev server of the directory", () => {
    const directory = beside(JSON.stringify(dev));
    expect(findConnection({}, {}, directory)).toEqual(dev);
    const env = { MILLRACE_API_KEY: "env-key", MILLRACE_ORGANIZATION: "acme" };
    expect(findConnection({ organization: "flag" }, env, directory)).toEqual({ ...dev, apiKey: "env-key", organization: "flag" });
  });

  it("A5: the dev server's key is not sent to a server that was named otherwise", () => {
    const directory = beside(JSON.stringify(dev));
    expect(() => findConnection({ server: "https://elsewhere.example" }, {}, directory)).toThrow(/No API key for https:\/\/elsewhere/);
    expect(() => findConnection({}, { MILLRACE_URL: "https://elsewhere.example" }, directory)).toThrow(/No API key/);
    expect(findConnection({ server: `${dev.url}/` }, {}, directory).apiKey).toBe("dev-key");
  });

  it("A17: without a key, or with an address that is no URL, it says what to give", () => {
    for (const file of [undefined, "{", "[]", JSON.stringify({ url: dev.url })]) {
      expect(() => findConnection({}, {}, beside(file))).toThrow(/No API key/);
    }
    expect(() => findConnection({ server: "localhost:7400", apiKey: "k" }, {}, beside(undefined))).toThrow(/not an http or https URL/);
  });
});
