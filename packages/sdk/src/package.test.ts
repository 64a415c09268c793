import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { scratch } from "@millrace/testkit";
import { publint } from "publint";
import { beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));
const { path: folder } = scratch("sdk-package");
const installed = join(folder, "node_modules/@millrace/sdk");

/** Builds, packs and unpacks the package, as somebody who installs it has it. */
beforeAll(async () => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  await run(process.execPath, [tsc, "-b", "packages/sdk"], { cwd: root });
  await run(process.execPath, ["scripts/bundle-wire.mjs"], { cwd: root });
  await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: join(root, "packages/sdk") });
  mkdirSync(installed, { recursive: true });
  const [archive = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run("tar", ["xzf", join(folder, archive), "--strip-components=1", "-C", installed]);
});

const files = (extension: string): string[] =>
  readdirSync(join(installed, "dist"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(extension));

describe("the published package", () => {
  it("C11: it has no dependency, and its files import only each other", () => {
    const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as Record<string, unknown>;
    expect(manifest).not.toHaveProperty("dependencies");
    expect(manifest).not.toHaveProperty("peerDependencies");
    expect(files(".js").length).toBeGreaterThan(20);
    const foreign = [...files(".js"), ...files(".d.ts")].flatMap((name) =>
      [...readFileSync(join(installed, "dist", name), "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)]
        .map(([, from = ""]) => from)
        .filter((from) => !from.startsWith(".") || normalize(join(dirname(name), from)).startsWith(".."))
        .map((from) => `${name}: ${from}`),
    );
    expect(foreign).toEqual([]);
    expect(readdirSync(installed).sort()).toEqual(["LICENSE", "README.md", "dist", "package.json"]);
    expect(files(".test.js")).toEqual([]);
  });

  it("C11: publint finds nothing", async () => {
    const { messages } = await publint({ pkgDir: installed, pack: false, strict: true });
    expect(messages).toEqual([]);
  });

  it("C11: its types are found wherever ES modules are, by every way of resolving them", async () => {
    const [archive = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
    const result = await checkPackage(createPackageFromTarballData(new Uint8Array(readFileSync(join(folder, archive)))));
    if (result.types === false) throw new Error("the package has no types");
    expect(result.types).toEqual({ kind: "included" });
    // The two ways that know no ES modules can't load this package at all, which is meant.
    const meant = ["node10", "node16-cjs"];
    expect(result.problems.filter((problem) => !("resolutionKind" in problem && meant.includes(problem.resolutionKind)))).toEqual([]);
  });

  it("C11: Node loads it as it is installed", async () => {
    const program =
      'import * as sdk from "@millrace/sdk"; console.log(await sdk.verifyQueueSignature("t=1,v1=x", { secret: "s", queue: "q", messageId: "m", attempt: 1, body: "" }), typeof sdk.queue);';
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], { cwd: folder });
    expect(stdout).toBe("false function\n");
  });

  it("W18: Node loads its workflows as they are installed, and runs one", async () => {
    const program =
      'import { testWorkflow } from "@millrace/sdk/workflows"; console.log((await testWorkflow(({ step }) => step.run("a", () => 7))).output);';
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], { cwd: folder });
    expect(stdout).toBe("7\n");
  });

  it.each([
    ["the web's types", ["dom", "dom.iterable"], []],
    ["Node's types", [], ["node"]],
  ])("C11: its types hold under %s, and carry a payload's type from validate to the handler", async (_, lib, types) => {
    const program = `
      import { type Queue, queue, toNodeHandler } from "@millrace/sdk";
      import { serve, type Workflow, workflow } from "@millrace/sdk/workflows";
      const order = workflow("order", async ({ input, step }) => step.run("place", () => input.orderId as number));
      const checked: Workflow<{ id: number }, string> = workflow("checked", ({ input }) => String(input.id), {
        input: (value: unknown) => value as { id: number },
      });
      export const parent = workflow("parent", async ({ step }) => {
        const told: string = await step.startRun("child", checked, { id: 1 });
        // @ts-expect-error: another input
        await step.startRun("child", checked, { id: told });
        const at: string = await step.run("at", () => new Date());
        return at;
      });
      export const app = serve([order, checked]);
      const emails = queue("emails", { validate: (value: unknown) => value as { to: string } });
      const typed: Queue<{ to: string }> = emails;
      export const POST = emails.handler(async ({ to }, { attempt }) => void (to.length + attempt));
      export const node = toNodeHandler(POST);
      void typed.send({ to: "me" }, { delay: "10m" });
      // @ts-expect-error: another payload
      void typed.send({ from: "me" });
      // @ts-expect-error: no duration
      void typed.send({ to: "me" }, { delay: "soon" });
    `;
    const name = lib.length > 0 ? "web.ts" : "node.ts";
    writeFileSync(join(folder, name), program);
    const options = {
      strict: true,
      module: "nodenext",
      target: "es2022",
      lib: ["es2023", ...lib],
      types,
      typeRoots: [join(root, "node_modules/@types")],
      noEmit: true,
    };
    writeFileSync(join(folder, `${name}.json`), JSON.stringify({ compilerOptions: options, files: [name] }));
    const { stdout } = await run(process.execPath, [
      join(root, "node_modules/typescript/bin/tsc"),
      "-p",
      join(folder, `${name}.json`),
    ]).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });
});
