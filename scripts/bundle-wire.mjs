// Part of the build: puts the contract's wire formats into the SDK's dist and points its imports at them, so that the published SDK has no
// dependency. The formats import nothing but each other, which is checked here. Running it again changes nothing.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

const wire = fileURLToPath(new URL("../packages/contract/dist/wire", import.meta.url));
const dist = fileURLToPath(new URL("../packages/sdk/dist", import.meta.url));

/** A module's code and types, and the names of its neighbours. */
function copy(name) {
  const neighbours = new Set();
  for (const extension of [".js", ".d.ts"]) {
    const text = readFileSync(join(wire, name + extension), "utf8");
    for (const [, from] of text.matchAll(/from "([^"]+)"/g)) {
      const neighbour = /^\.\/([a-z0-9-]+)\.[jt]s$/.exec(from)?.[1];
      if (neighbour === undefined) throw new Error(`wire/${name} imports ${from}: it must import only its neighbours`);
      neighbours.add(neighbour);
    }
    writeFileSync(join(dist, "wire", name + extension), text.replace(/\n\/\/# sourceMappingURL=.*\n?$/, "\n"));
  }
  return neighbours;
}

mkdirSync(join(dist, "wire"), { recursive: true });
const modules = new Set(["index"]);
// A set that grows while it is walked is walked to its end.
for (const name of modules) for (const neighbour of copy(name)) modules.add(neighbour);

const files = readdirSync(dist, { recursive: true, encoding: "utf8" });
for (const name of files.filter((file) => /\.(js|d\.ts)$/.test(file) && !file.startsWith("wire"))) {
  const path = join(dist, name);
  const text = readFileSync(path, "utf8");
  const up = "../".repeat(name.split(sep).length - 1) || "./";
  const bundled = text.replaceAll('"@millrace/contract/wire"', `"${up}wire/index.js"`);
  if (bundled !== text) writeFileSync(path, bundled);
}
