import { fileURLToPath } from "node:url";
import { EdgeVM } from "@edge-runtime/vm";
import { build } from "esbuild";
import { expect, it } from "vitest";

it("C11, W18: workflows run where there are only web globals, of the package's own files and the wire formats", async () => {
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
  const foreign = Object.keys(metafile.inputs).filter(
    (path) => !/packages\/(sdk\/src|contract\/src\/wire)\/(workflows\/)?[a-z0-9-]+\.ts$/.test(path),
  );
  expect(foreign).toEqual([]);
  const vm = new EdgeVM();
  vm.evaluate(`${outputFiles[0]?.text}; globalThis.sdk = sdk;`);
  expect(vm.evaluate("[typeof process, typeof require, typeof Buffer, typeof setImmediate].join()")).toBe(
    "undefined,undefined,undefined,undefined",
  );
  const outcome = await vm.evaluate<Promise<unknown>>(`(async () => {
    const queues = new sdk.QueuesClient({ apiKey: "k", organizationId: "o", projectId: "p" });
    const order = sdk.workflow("order", async ({ input, step }) => {
      const parts = await Promise.all([1, 2, 3].map((n) => step.run("part", () => n * input.times)));
      await step.sleep("rest", "1d");
      await step.sendToQueue("notify", queues, "q", [{ body: "done" }]);
      return parts;
    });
    const { status, output, sent } = await sdk.testWorkflow(order, { input: { times: 2 } });
    const served = await sdk.serve([order], { allowUnsigned: true })(new Request("http://x/", { method: "POST", body: '{"type":"sync"}' }));
    return JSON.stringify([status, output, sent.length, (await served.json()).workflows]);
  })()`);
  expect(JSON.parse(String(outcome))).toEqual(["completed", [2, 4, 6], 1, [{ name: "order" }]]);
});
