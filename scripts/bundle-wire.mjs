// Part of the build: puts the contract's wire formats into the SDK's dist and points its imports at them, so that the published SDK has no
// dependency. The formats import nothing but each other, which is checked here. Running it again changes nothing.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const wire = fileURLToPath(new URL("../packages/contract/dist/wire", import.meta.url));
const dist = fileURLToPath(new URL("../packages/sdk/dist", import.meta.url));
const isCode = (name) => /\.(js|d\.ts)$/.test(name);

mkdirSync(join(dist, "wire"), { recursive: true });
for (const name of readdirSync(wire).filter(isCode)) {
  const text = readFileSync(join(wire, name), "utf8");
  for (const [, from] of text.matchAll(/from "([^"]+)"/g)) {
    if (!/^\.\/[a-z-]+\.js$/.test(from) && !/^\.\/[a-z-]+\.ts$/.test(from))
      throw new Error(`wire/${name} imports ${from}: it must import only its neighbours`);
  }
  writeFileSync(join(dist, "wire", name), text.replace(/\n\/\/# sourceMappingURL=.*\n?$/, "\n"));
}
for (const name of readdirSync(dist).filter(isCode)) {
  const path = join(dist, name);
  const text = readFileSync(path, "utf8");
  const bundled = text.replaceAll('"@millrace/contract/wire"', '"./wire/index.js"');
  if (bundled !== text) writeFileSync(path, bundled);
}
