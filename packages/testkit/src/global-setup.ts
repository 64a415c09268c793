/**
 * Vitest's global set-up: hands the run's one PostgreSQL to the test files, started when first asked for, stopped at the end, and a
 * folder for their scratch, removed at the end.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresServer, startPostgres } from "./postgres.ts";

/** Starts the broker and names it in the environment; the answer stops everything. */
export default async function setup(): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-run-"));
  process.env.MILLRACE_TEST_SCRATCH = folder;
  const tidy = (): void => rmSync(folder, { recursive: true, force: true });
  if (process.env.MILLRACE_TEST_POSTGRES) return async () => tidy();
  let server: Promise<PostgresServer> | undefined;
  const broker = createServer((_request, response) => {
    server ??= startPostgres();
    server.then(
      ({ url }) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, "127.0.0.1");
  await once(broker, "listening");
  broker.unref();
  const address = broker.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  process.env.MILLRACE_TEST_POSTGRES = `http://127.0.0.1:${address.port}/`;
  return async () => {
    delete process.env.MILLRACE_TEST_POSTGRES;
    tidy();
    broker.close();
    broker.closeAllConnections();
    await (await server?.catch(() => undefined))?.stop();
  };
}
