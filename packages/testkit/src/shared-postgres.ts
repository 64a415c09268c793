/**
 * One PostgreSQL for a whole test run. The run's `global-setup.ts` listens on a loopback port and starts the server when the first
 * test asks for it, so that runs without database tests pay nothing. `MILLRACE_TEST_POSTGRES` carries that port's http URL, or
 * directly the `postgres://` URL of a server to use.
 */
import { freshDatabase, type PostgresServer, startPostgres } from "./postgres.ts";

/** The shared server: it takes no restarts, since other tests use it at the same time (`startPostgres` makes one of your own). */
export type SharedPostgres = Pick<PostgresServer, "url" | "fresh" | "stop">;

let shared: Promise<SharedPostgres> | undefined;

async function open(): Promise<SharedPostgres> {
  const given = process.env.MILLRACE_TEST_POSTGRES;
  if (given === undefined || given === "") return startPostgres();
  let url = given;
  if (given.startsWith("http:")) {
    const answer = await fetch(given);
    url = await answer.text();
    if (!answer.ok) throw new Error(url);
  }
  return { url, fresh: () => freshDatabase(url), stop: async () => {} };
}

/** The run's PostgreSQL. `stop` may be called or not: the run stops it at its end. */
export function postgres(): Promise<SharedPostgres> {
  shared ??= open();
  return shared;
}
