// Makes the server one of the version before, as far as the database can tell: it has another version and does not know the last step of
// the schema. Only in those of its lives that have MILLRACE_TEST_OLDER=1.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

if (process.env.MILLRACE_TEST_OLDER === "1") {
  const { readFileSync } = fs;
  fs.readFileSync = (path, ...rest) => {
    const text = readFileSync(path, ...rest);
    if (!String(path).endsWith("/packages/server/package.json")) return text;
    return JSON.stringify({ ...JSON.parse(String(text)), version: "0.0.1-older" });
  };
  syncBuiltinESMExports();
  const { migrations } = await import("../../../server/src/store/migrate.ts");
  migrations.pop();
}
