// Writes spec/openapi.json from the contract: npm run openapi
import { readFileSync, writeFileSync } from "node:fs";
import { createOpenapi } from "../packages/server/src/http/openapi.ts";

const root = new URL("../", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("packages/server/package.json", root), "utf8")) as { version: string };
writeFileSync(new URL("spec/openapi.json", root), `${JSON.stringify(createOpenapi(version), null, 2)}\n`);
