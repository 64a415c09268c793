/** What the tests of attempts share: an attempt that trusts a test CA and reaches loopback, and endpoints that write raw bytes. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { certificates, resolver } from "@millrace/testkit";
import { type AttemptOptions, createAttempt } from "./attempt.ts";
import type { DeliveryRequest, EgressPolicy } from "./types.ts";

export const authority = certificates();
export const host = "hooks.example.com";

/** Opens loopback on every port for `host`, over http too. */
export const loopback: EgressPolicy = {
  allowHosts: [host],
  allowCidrs: [],
  allowHttp: true,
  allowPorts: Array.from({ length: 65_535 }, (_, i) => i + 1),
  ownHosts: [],
};

/** Attempts that lead `host` to loopback; closed by the caller. */
export function attempts(given: Partial<AttemptOptions> = {}) {
  return createAttempt({ policy: loopback, resolve: resolver({ [host]: "127.0.0.1" }), ca: [authority.ca], ...given });
}

/** A deadline that comes when the test says so. */
export function handDeadline() {
  const waiting = new Set<() => void>();
  return {
    after: (_ms: number, call: () => void) => {
      waiting.add(call);
      return () => void waiting.delete(call);
    },
    /** Every deadline that is waited for comes now. */
    fire: () => {
      for (const call of [...waiting]) call();
    },
    get waiting() {
      return waiting.size;
    },
  };
}

export function request(url: string, given: Partial<DeliveryRequest> = {}): DeliveryRequest {
  return {
    url,
    method: "POST",
    headers: { "content-type": "application/json" },
    body: new TextEncoder().encode("PAYLOAD"),
    timeoutMs: 20_000,
    ...given,
  };
}

export interface RawEndpoint {
  readonly port: number;
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections open now. */
  readonly open: number;
  /** Everything received, by connection. */
  readonly received: readonly string[];
  /** Resolves once no connection is open. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** A server that calls `answer` whenever another whole request came on a connection; `nth` counts those of the connection from 1. */
export async function rawEndpoint(answer: (socket: Socket, nth: number) => void, tls?: TlsOptions): Promise<RawEndpoint> {
  const open = new Set<Socket>();
  const received: string[] = [];
  const waits = new Set<() => void>();
  let connections = 0;
  const take = (socket: Socket): void => {
    const index = received.push("") - 1;
    let seen = 0;
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      received[index] += chunk.toString("latin1");
      const whole = (received[index] ?? "").split("PAYLOAD").length - 1;
      while (seen < whole) answer(socket, ++seen);
    });
  };
  const server = tls ? createTlsServer(tls, take) : createServer(take);
  server.on("connection", (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => {
      open.delete(socket);
      if (open.size === 0) for (const wake of waits) wake();
    });
  });
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    get open() {
      return open.size;
    },
    received,
    idle: () => (open.size === 0 ? Promise.resolve() : new Promise((resolve) => waits.add(resolve))),
    close: async () => {
      const closed = once(server, "close");
      server.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}
