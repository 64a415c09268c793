/**
 * The API's description: `/openapi.json`, and `/docs`, which draws it with Scalar's script served from here. Nothing on the page may
 * be asked for elsewhere: the content security policy holds even if the script would.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { FastifyInstance, FastifyReply } from "fastify";
import { createOpenapi } from "./openapi.ts";

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millrace API</title>
</head>
<body>
<div id="reference"></div>
<noscript>The reference needs JavaScript; the document itself is at <a href="/openapi.json">/openapi.json</a>.</noscript>
<script src="/docs/reference.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

const START = `Scalar.createApiReference("#reference", {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  persistAuth: false,
});
`;

/** The version in this package's package.json, beside both `src` and `dist`. */
function productVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  return manifest.version;
}

/** Scalar's script: the copy that a build puts beside `dist`, or the installed package's in a source tree; `null` without either. */
function findScript(): string | null {
  const copy = fileURLToPath(new URL("../../assets/reference.js", import.meta.url));
  if (existsSync(copy)) return copy;
  try {
    const main = createRequire(import.meta.url).resolve("@scalar/api-reference");
    const installed = join(dirname(main), "browser/standalone.js");
    return existsSync(installed) ? installed : null;
  } catch {
    return null;
  }
}

const kept = (reply: FastifyReply, type: string): FastifyReply => reply.type(type).header("cache-control", "public, max-age=3600");

/** Adds `/openapi.json`, `/docs` and, for now, `/`; answers their routes. */
export function addReference(app: FastifyInstance): { method: string; path: string }[] {
  let document: string | undefined;
  let script: Buffer | null | undefined;
  app.get("/openapi.json", (_request, reply) => {
    document ??= JSON.stringify(createOpenapi(productVersion()));
    return reply.type("application/json; charset=utf-8").send(document);
  });
  app.get("/docs", (_request, reply) =>
    reply
      .type("text/html; charset=utf-8")
      .headers({ "content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-frame-options": "DENY" })
      .send(PAGE),
  );
  app.get("/docs/start.js", (_request, reply) => kept(reply, "text/javascript; charset=utf-8").send(START));
  app.get("/docs/reference.js", (_request, reply) => {
    if (script === undefined) {
      const path = findScript();
      script = path === null ? null : readFileSync(path);
    }
    const missing = 'document.getElementById("reference").textContent = "This build has no reference; see /openapi.json";';
    return kept(reply, "text/javascript; charset=utf-8").send(script ?? missing);
  });
  app.get("/", (_request, reply) => reply.redirect("/docs"));
  return ["/openapi.json", "/docs", "/docs/start.js", "/docs/reference.js", "/"].map((path) => ({ method: "GET", path }));
}
