/**
 * Connections, kept by endpoint. One connection is one socket to an address that was checked, and carries one request at a time; it is
 * closed at most 30 s after the check, so that its name is checked again. A connection never dials a second time: nothing is sent twice.
 */
import { connect as connectTcp, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, createSecureContext, type SecureContext } from "node:tls";
import { Client } from "undici";
import { sameForm } from "./addresses.ts";
import type { Failure, ResolvedAddress } from "./egress.ts";
import { failureOf } from "./failures.ts";
import { skipInterim } from "./interim.ts";
import type { Target } from "./target.ts";
import { systemTrust } from "./trust.ts";

/** The longest life of a connection, counted from the check of its address (P19). */
export const maxAgeMs = 30_000;
/** How long a connection is kept idle when the endpoint names no time: below the 5 s after which common servers hang up. */
const idleMs = 4000;
/** Idle connections kept in all. */
const maxIdle = 1024;

/** One socket, ready for a request. */
export interface Connection {
  readonly client: Client;
  /** It carried a request before. */
  reused: boolean;
  /** Call before each request. */
  expect(): void;
  readonly endpoint: string;
  readonly socket: Socket;
  bornMs: number;
}

export interface Agent {
  /** An idle connection to the endpoint, or `undefined`. */
  idle(target: Target): Connection | undefined;
  /**
   * Dials one of `addresses` (and no other). Calls back once, unless the returned function was called first, which drops everything.
   */
  dial(target: Target, addresses: readonly ResolvedAddress[], done: (result: Connection | Failure) => void): () => void;
  /** Gives a connection back after a complete answer. */
  release(connection: Connection): void;
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
    connection.client.destroy().catch(() => {});
    connection.socket.destroy();
  };

  const adopt = (target: Target, socket: Socket, bornMs: number): Connection => {
    let used = false;
    const client = new Client(`${target.scheme}://${target.host.includes(":") ? `[${target.host}]` : target.host}:${target.port}`, {
      connect: (_options, callback) => {
        if (used) callback(new Error("a connection is never dialled twice"), null);
        // The client expects an answer later than its question.
        else queueMicrotask(() => callback(null, socket));
        used = true;
      },
      pipelining: 1,
      // The attempt has one deadline of its own for all of it.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: maxAgeMs,
    });
    const connection: Connection = {
      client,
      socket,
      bornMs,
      reused: false,
      endpoint: target.endpoint,
      expect: skipInterim(socket),
    };
    // After the client's own listener, which names the cause to a request under way.
    socket.once("close", () => queueMicrotask(() => drop(connection)));
    const oldAge = setTimeout(() => idle.get(connection.endpoint)?.includes(connection) && drop(connection), maxAgeMs);
    oldAge.unref();
    socket.once("close", () => clearTimeout(oldAge));
    return connection;
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
        if (!connection.socket.destroyed && now() - connection.bornMs < maxAgeMs) return connection;
        drop(connection);
      }
    },
    dial(target, addresses, done) {
      const bornMs = now();
      const checked = new Set(addresses.map(({ address }) => sameForm(address)));
      // Always asked for all addresses, because `autoSelectFamily` is on.
      const lookup: LookupFunction = (_name, _options, callback) => callback(null, [...addresses]);
      const options = {
        host: target.host,
        port: target.port,
        lookup,
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: 500,
        noDelay: true,
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
        const connection = adopt(target, socket, bornMs);
        sockets.set(socket, connection);
        done(connection);
      });
      return () => {
        over = true;
        socket.destroy();
      };
    },
    release(connection) {
      connection.reused = true;
      if (connection.socket.destroyed || idleCount >= maxIdle || now() - connection.bornMs >= maxAgeMs) return drop(connection);
      const list = idle.get(connection.endpoint);
      if (list === undefined) idle.set(connection.endpoint, [connection]);
      else list.push(connection);
      idleCount += 1;
    },
    drop,
    close() {
      for (const [socket, connection] of sockets) {
        if (connection === undefined) socket.destroy();
        else drop(connection);
      }
    },
  };
}
