// Part of the build: puts the script that draws /docs beside the server's dist, so that an installed server needs no other package for it.
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const assets = fileURLToPath(new URL("../packages/server/assets", import.meta.url));
const library = dirname(fileURLToPath(import.meta.resolve("@scalar/api-reference")));
mkdirSync(assets, { recursive: true });
copyFileSync(join(library, "browser/standalone.js"), join(assets, "reference.js"));
