/**
 * A TCP proxy that stands between a server and its database and does to the line what networks do: delays it, cuts it, swallows what is
 * said, or refuses connections. A fault is in force for open connections too, until it is healed.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** What a proxy does to the line. */
export interface TcpProxy {
  readonly port: number;
  /** A URL with this proxy's address in place of its host and port. */
  urlOf(target: string): string;
  /** Connections open now. */
  readonly connections: number;
  /** Delays what comes from either side by so many milliseconds; 0 ends it. */
  delay(ms: number): void;
  /** Swallows everything in both directions: connections stay, nothing arrives. New ones are accepted and swallowed too. */
  blackHole(): void;
  /** Cuts all connections and refuses new ones. */
  refuse(): void;
  /** Cuts all connections; new ones work. */
  cut(): void;
  /** Cuts the next connection from which the target has sent `bytes` bytes since this call. Resolves once it is cut. */
  cutAfterBytes(bytes: number): Promise<void>;
  /** Cuts the next connection on which the target says `text`, before that reaches the client. Resolves once it is cut. */
  cutBefore(text: string): Promise<void>;
  /** Leads new connections elsewhere, and cuts those that are open. */
  lead(target: number | string): void;
  /** Ends delays, black holes and refusals. What a black hole swallowed is lost: its connections are cut. */
  heal(): void;
  close(): Promise<void>;
}

/** What PostgreSQL says once a transaction is committed: cut before this, and nobody knows that it is. */
export const COMMITTED = "COMMIT\0";

interface Line {
  client: Socket;
  target: Socket;
  /** The end of what the target said last: a text may come in two pieces. */
  tail: Buffer;
  bytes: number;
}

type Trap = { resolve: () => void } & ({ kind: "bytes"; bytes: number } | { kind: "text"; text: Buffer });

/** Starts a proxy before a port on this machine, or the port of a URL. */
export async function tcpProxy(target: number | string): Promise<TcpProxy> {
  const portOf = (where: number | string): number => (typeof where === "number" ? where : Number(new URL(where).port));
  let targetPort = portOf(target);
  const lines = new Set<Line>();
  const traps = new Set<Trap>();
  let delayMs = 0;
  let swallows = false;
  let refuses = false;

  const end = (line: Line): void => {
    lines.delete(line);
    line.client.destroy();
    line.target.destroy();
  };
  const cut = (): void => {
    for (const line of [...lines]) end(line);
  };
  const pass = (line: Line, to: Socket, chunk: Buffer): void => {
    if (swallows || !lines.has(line)) return;
    if (delayMs === 0) to.write(chunk);
    else setTimeout(() => lines.has(line) && !swallows && to.write(chunk), delayMs);
  };
  /** Whether a trap closes on what the target just said. */
  const caught = (line: Line, chunk: Buffer): boolean => {
    line.bytes += chunk.length;
    const said = Buffer.concat([line.tail, chunk]);
    line.tail = said.subarray(-16);
    for (const trap of traps) {
      if (trap.kind === "bytes" ? line.bytes < trap.bytes : !said.includes(trap.text)) continue;
      traps.delete(trap);
      end(line);
      trap.resolve();
      return true;
    }
    return false;
  };
  const server = createServer((client) => {
    if (refuses) {
      client.destroy();
      return;
    }
    const line: Line = { client, target: connect(targetPort, "127.0.0.1"), tail: Buffer.alloc(0), bytes: 0 };
    lines.add(line);
    client.on("data", (chunk) => pass(line, line.target, chunk));
    line.target.on("data", (chunk) => {
      if (!caught(line, chunk)) pass(line, client, chunk);
    });
    for (const socket of [client, line.target]) {
      socket.setNoDelay();
      socket.on("error", () => {});
      // In a black hole even the end of a connection is not heard of.
      socket.on("close", () => {
        if (!swallows) end(line);
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  const { port } = server.address() as { port: number };

  return {
    port,
    urlOf(url) {
      const through = new URL(url);
      through.host = `127.0.0.1:${port}`;
      return through.href;
    },
    get connections() {
      return lines.size;
    },
    delay(ms) {
      delayMs = ms;
    },
    blackHole() {
      swallows = true;
    },
    refuse() {
      refuses = true;
      cut();
    },
    cut,
    cutAfterBytes: (bytes) =>
      new Promise((resolve) => {
        for (const line of lines) line.bytes = 0;
        traps.add({ kind: "bytes", bytes, resolve });
      }),
    cutBefore: (text) => new Promise((resolve) => traps.add({ kind: "text", text: Buffer.from(text), resolve })),
    lead(where) {
      targetPort = portOf(where);
      cut();
    },
    heal() {
      delayMs = 0;
      refuses = false;
      if (!swallows) return;
      swallows = false;
      cut();
    },
    async close() {
      cut();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
