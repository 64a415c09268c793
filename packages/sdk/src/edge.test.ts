import { fileURLToPath } from "node:url";
import { EdgeVM } from "@edge-runtime/vm";
import { build } from "esbuild";
import { beforeAll, describe, expect, it } from "vitest";
import { json, scripted } from "./scripted.fixture.ts";

let code = "";
let imported: string[] = [];
beforeAll(async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL("index.ts", import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    format: "iife",
    globalName: "sdk",
    // Knows no module of any platform: an import of one fails the build.
    platform: "neutral",
    conditions: ["@millrace/source"],
  });
  code = outputFiles[0]?.text ?? "";
  imported = Object.keys(metafile.inputs);
});

/** A runtime with web globals only, and this package in it as `sdk`. */
function edge(): EdgeVM {
  const vm = new EdgeVM();
  vm.evaluate(`${code}; globalThis.sdk = sdk;`);
  return vm;
}

describe("on a runtime with fetch and WebCrypto, and nothing of Node", () => {
  it("C11: the package is made of its own files and the contract's wire formats", () => {
    expect(imported.filter((path) => !/packages\/(sdk\/src(\/topics)?|contract\/src\/wire)\/[a-z0-9-]+\.ts$/.test(path))).toEqual([]);
    expect(edge().evaluate("[typeof process, typeof require, typeof Buffer, typeof Deno].join()")).toBe(
      "undefined,undefined,undefined,undefined",
    );
  });

  it("C12, C14: a handler verifies, decodes, and answers outcomes", async () => {
    const outcomes = await edge().evaluate<Promise<unknown>>(`(async () => {
      const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYA";
      const deliver = async (body, fn, key = secret) => {
        const signature = await sdk.signQueueDelivery({ secret: key, queue: "emails", messageId: "m1", attempt: 1, body });
        const headers = {
          "content-type": "application/json",
          "x-gigadrive-queue-name": "emails",
          "x-gigadrive-queue-message-id": "m1",
          "x-gigadrive-queue-attempt": "1",
          "x-gigadrive-queue-signature": signature,
        };
        const handler = sdk.queue("emails", { signingSecret: secret }).handler(fn);
        const answer = await handler(new Request("http://localhost/api", { method: "POST", headers, body }));
        return [answer.status, answer.headers.get("x-gigadrive-queue-action") ?? answer.headers.get("x-gigadrive-queue-retry-after")];
      };
      const seen = [];
      return JSON.stringify([
        await deliver('{"to":"é😀"}', (payload) => seen.push(payload)),
        await deliver("1", () => { throw new sdk.RetryLaterError("1m"); }),
        await deliver("1", () => { throw new sdk.NonRetryableError("no"); }),
        await deliver("1", () => { throw new Error("down"); }),
        await deliver("1", () => {}, "another secret"),
        seen,
      ]);
    })()`);
    expect(JSON.parse(String(outcomes))).toEqual([
      [204, null],
      [204, "60"],
      [422, "dead-letter"],
      [500, null],
      [401, null],
      [{ to: "é😀" }],
    ]);
  });

  it("C11, C13: sends, receives and works over its own fetch", async () => {
    let left = 3;
    const { server, close } = await scripted(({ path }) => {
      if (path.endsWith("/receive")) {
        const messages =
          left > 0 ? [{ id: `m${left--}`, body: "aGk=", encoding: "base64", contentType: "text/plain", attempts: 1, receipt: "r" }] : [];
        return json({ messages });
      }
      if (path.endsWith("/ack")) return json({ results: [{ acknowledged: true }] });
      return json({ messageId: "m1", deduplicated: false });
    });
    const result = await edge().evaluate<Promise<unknown>>(`(async () => {
      const queue = new sdk.Millrace({ url: "${server.url}", apiKey: "k", project: "shop" }).queue("emails");
      const { messageId } = await queue.send(new Uint8Array([1, 2, 3]));
      const seen = [];
      const { handled } = await queue.consume((payload) => seen.push(payload), { stopWhenEmpty: true });
      return JSON.stringify([messageId, handled, seen]);
    })()`);
    expect(JSON.parse(String(result))).toEqual(["m1", 3, ["hi", "hi", "hi"]]);
    expect(server.requests[0]?.json()).toMatchObject({ body: "AQID", encoding: "base64" });
    await close();
  });
});
