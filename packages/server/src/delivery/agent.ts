/**
 * Connections, kept by endpoint. One connection is one socket to an address that was checked, and carries one request at a time; it is
 * closed at most 30 s after the check, so that its name is checked again.
 */
import { connect as connectTcp, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls, createSecureContext, type SecureContext } from "node:tls";
import { sameForm } from "./addresses.ts";
import { Connection } from "./connection.ts";
import type { Failure, ResolvedAddress } from "./egress.ts";
import { failureOf } from "./failures.ts";
import type { Target } from "./target.ts";
import { systemTrust } from "./trust.ts";

/** The longest life of a connection, counted from the check of its address (P19). */
export const maxAgeMs = 30_000;
/** Idle connections kept in all. */
const maxIdle = 1024;
/** How often connections are looked for that waited too long. */
const sweepMs = 1_000;
/** What a socket reads at once, at most. */
const readBytes = 65_536;

export interface Agent {
  /** An idle connection to the endpoint, or `undefined`. */
  idle(target: Target): Connection | undefined;
  /**
   * Dials one of `addresses` (and no other). Calls back once, unless the returned function was called first, which drops everything.
   */
  dial(target: Target, addresses: readonly ResolvedAddress[], done: (result: Connection | Failure) => void): () => void;
  /** Gives a connection back after a complete answer: it may wait so long for the next request. */
  release(connection: Connection, keepMs: number): void;
  /** Ends a connection now. */
  drop(connection: Connection): void;
  /** Sockets that are open, for tests and metrics. */
  readonly open: number;
  close(): void;
}

function trusting(ca: readonly string[] | undefined): SecureContext {
  return createSecureContext({ ...(ca === undefined ? {} : { ca: [...ca] }), minVersion: "TLSv1.2" });
}

/** `ca`: the trusted authorities (PEM), those of the machine unless given; throws when they cannot be read. `now`: monotonic milliseconds. */
export function createAgent({ ca, now }: { ca: readonly string[] | undefined; now: () => number }): Agent {
  // Those of the machine are many: read when first needed.
  let secure = ca === undefined ? undefined : trusting(ca);
  const sockets = new Map<Socket, Connection | undefined>();
  const idle = new Map<string, Connection[]>();
  let idleCount = 0;
  let sweeper: NodeJS.Timeout | undefined;
  // All sockets read into one buffer: what was read is taken at once.
  const bytes = Buffer.allocUnsafeSlow(readBytes);

  const forget = (connection: Connection): void => {
    const list = idle.get(connection.endpoint);
    const at = list?.indexOf(connection) ?? -1;
    if (list === undefined || at < 0) return;
    list.splice(at, 1);
    idleCount -= 1;
    if (list.length === 0) idle.delete(connection.endpoint);
  };

  const drop = (connection: Connection): void => {
    forget(connection);
    connection.destroy();
  };

  const sweep = (): void => {
    sweeper = undefined;
    const at = now();
    for (const connection of [...idle.values()].flat()) if (at >= connection.idleUntilMs) drop(connection);
    arm();
  };
  const arm = (): void => {
    if (idleCount === 0 || sweeper !== undefined) return;
    sweeper = setTimeout(sweep, sweepMs);
    sweeper.unref();
  };

  return {
    get open() {
      return sockets.size;
    },
    idle(target) {
      const list = idle.get(target.endpoint);
      if (list === undefined) return undefined;
      for (;;) {
        const connection = list.pop();
        if (list.length === 0) idle.delete(target.endpoint);
        if (connection === undefined) return undefined;
        idleCount -= 1;
        if (!connection.socket.destroyed && now() < connection.idleUntilMs) return connection;
        drop(connection);
      }
    },
    dial(target, addresses, done) {
      const bornMs = now();
      const checked = new Set(addresses.map(({ address }) => sameForm(address)));
      // Always asked for all addresses, because `autoSelectFamily` is on.
      const lookup: LookupFunction = (_name, _options, callback) => callback(null, [...addresses]);
      let connection: Connection | undefined;
      const onread: OnReadOpts = {
        buffer: bytes,
        callback(length) {
          if (connection === undefined) socket.destroy();
          else connection.read(bytes, length);
          return true;
        },
      };
      const options = {
        host: target.host,
        port: target.port,
        lookup,
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: 500,
        noDelay: true,
        onread,
      };
      let over = false;
      let socket: Socket;
      const fail = (failure: Failure): void => {
        if (over) return;
        over = true;
        socket.destroy();
        done(failure);
      };
      if (target.scheme === "https") {
        secure ??= trusting(systemTrust());
        const servername = target.literal ? "" : target.host;
        socket = connectTls({ ...options, servername, secureContext: secure, ALPNProtocols: ["http/1.1"] });
      } else socket = connectTcp(options);
      sockets.set(socket, undefined);
      socket.once("close", () => {
        sockets.delete(socket);
        fail({ class: "connection", message: "the endpoint closed the connection while it was being made" });
      });
      socket.on("error", (error) => fail(failureOf(error)));
      socket.once("connect", () => {
        const form = socket.remoteAddress === undefined ? undefined : sameForm(socket.remoteAddress);
        if (form === undefined || !checked.has(form)) fail({ class: "refused", message: "the connection went to an unchecked address" });
      });
      socket.once(target.scheme === "https" ? "secureConnect" : "connect", () => {
        if (over) return;
        over = true;
        connection = new Connection(target.endpoint, bornMs, socket, forget);
        sockets.set(socket, connection);
        done(connection);
      });
      return () => {
        over = true;
        socket.destroy();
      };
    },
    release(connection, keepMs) {
      const at = now();
      connection.idleUntilMs = Math.min(at + keepMs, connection.bornMs + maxAgeMs);
      const { socket, idleUntilMs } = connection;
      // An answer that came before its request was all written, or was complete while its reading was stopped: rare, and not worth the care.
      const busy = socket.writableLength > 0 || socket.isPaused();
      if (socket.destroyed || busy || idleCount >= maxIdle || at >= idleUntilMs) return drop(connection);
      const list = idle.get(connection.endpoint);
      if (list === undefined) idle.set(connection.endpoint, [connection]);
      else list.push(connection);
      idleCount += 1;
      arm();
    },
    drop,
    close() {
      clearTimeout(sweeper);
      for (const [socket, connection] of sockets) {
        if (connection === undefined) socket.destroy();
        else drop(connection);
      }
    },
  };
}
