/**
 * A real HTTP or HTTPS endpoint on a loopback port that records what it is sent and answers as told. Tests await its events
 * (`next`, `received`, `idle`) and never time. What it records is the bytes on the wire, not what a parser made of them.
 */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";

/** One request as it came. */
export interface ReceivedRequest {
  /** 1 for the first to arrive complete. */
  order: number;
  method: string;
  /** Path and query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** Names and values in turn, as sent. */
  rawHeaders: string[];
  /** The raw bytes. */
  body: Uint8Array;
  /** The bytes read as UTF-8. */
  text: string;
  /** The body as JSON. */
  json<T = unknown>(): T;
  /** Resolves once the exchange is over; `true` when the whole answer was handed to the socket. */
  done: Promise<boolean>;
}

/** What to answer. All of it is optional: `{}` is an empty 200. */
export interface ReceiverAnswer {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** The answer waits for this. */
  after?: Promise<unknown>;
  /** Cut the connection instead of answering; `body` cuts it after the headers and half of the body. */
  drop?: "request" | "body";
  /** Sends the body byte by byte, each after a promise of `next` (give a promise that never resolves to stop). */
  drip?: { next: () => Promise<unknown> };
  /** Adds this many bytes of filling to the body. */
  hugeBytes?: number;
}

export type AnswerFunction = (request: ReceivedRequest) => ReceiverAnswer | Promise<ReceiverAnswer>;

/** A running endpoint. */
export interface Receiver {
  /** Scheme, 127.0.0.1 and port, without a path. */
  readonly url: string;
  readonly port: number;
  /** Everything received so far, in order of arrival. */
  readonly requests: readonly ReceivedRequest[];
  /** Requests being answered now. */
  readonly open: number;
  /** The most requests that were ever open at once. */
  readonly highWater: number;
  /** Connections accepted so far, of whatever became of them. */
  readonly connections: number;
  /** The next request that nobody took yet, at once or when it comes. */
  next(): Promise<ReceivedRequest>;
  /** Resolves with all requests once there are at least `count`. */
  received(count: number): Promise<readonly ReceivedRequest[]>;
  /** Resolves once at least `count` requests are open at the same time. */
  opened(count: number): Promise<void>;
  /** Resolves once no request is open. */
  idle(): Promise<void>;
  /** Changes the answer for requests that arrive from now on. */
  answer(next: AnswerFunction | ReceiverAnswer): void;
  /** Stops listening and cuts every connection. */
  close(): Promise<void>;
}

export interface ReceiverOptions {
  /** PEM key and certificate: HTTPS. */
  tls?: { key: string; cert: string };
  /** A fixed answer or a function of the request; an empty 200 unless given. */
  answer?: AnswerFunction | ReceiverAnswer;
  /** 0 (a free one) unless given. */
  port?: number;
  /** `127.0.0.1` unless given. */
  host?: string;
}

/** Starts an endpoint; it never keeps the process alive. */
export async function receiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const waits = new Set<{ met: () => boolean; resolve: () => void }>();
  let taken = 0;
  let open = 0;
  let highWater = 0;
  let connections = 0;
  const asFunction = (given: AnswerFunction | ReceiverAnswer): AnswerFunction => (typeof given === "function" ? given : () => given);
  let answer = asFunction(options.answer ?? {});

  const changed = (): void => {
    for (const wait of waits) {
      if (!wait.met()) continue;
      waits.delete(wait);
      wait.resolve();
    }
  };
  const until = (met: () => boolean): Promise<void> => (met() ? Promise.resolve() : new Promise((resolve) => waits.add({ met, resolve })));

  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    open += 1;
    highWater = Math.max(highWater, open);
    changed();
    const done = new Promise<boolean>((resolve) => {
      response.once("close", () => {
        open -= 1;
        resolve(response.writableFinished);
        changed();
      });
    });
    response.on("error", () => {});
    const chunks: Uint8Array[] = [];
    try {
      for await (const chunk of incoming) chunks.push(chunk as Uint8Array);
    } catch {
      return; // The sender hung up while sending: nothing arrived.
    }
    const body: Uint8Array = Uint8Array.from(Buffer.concat(chunks));
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(body);
    const request: ReceivedRequest = {
      order: requests.length + 1,
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      rawHeaders: incoming.rawHeaders,
      body,
      text,
      json: <T>() => JSON.parse(text) as T,
      done,
    };
    requests.push(request);
    const answering = answer;
    changed();
    await write(response, await answering(request));
  };

  const listener = (incoming: IncomingMessage, response: ServerResponse): void => {
    handle(incoming, response).catch((error: unknown) => response.destroy(error as Error));
  };
  const server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
  server.on("connection", () => {
    connections += 1;
  });
  server.on("tlsClientError", () => {});
  server.listen(options.port ?? 0, options.host ?? "127.0.0.1");
  await once(server, "listening");
  server.unref();
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");

  return {
    url: `${options.tls ? "https" : "http"}://127.0.0.1:${address.port}`,
    port: address.port,
    requests,
    get open() {
      return open;
    },
    get highWater() {
      return highWater;
    },
    get connections() {
      return connections;
    },
    async next() {
      const index = taken;
      taken += 1;
      await until(() => requests.length > index);
      return requests[index] as ReceivedRequest;
    },
    async received(count) {
      await until(() => requests.length >= count);
      return requests;
    },
    opened: (count) => until(() => open >= count),
    idle: () => until(() => open === 0),
    answer(next) {
      answer = asFunction(next);
    },
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function write(response: ServerResponse, answer: ReceiverAnswer): Promise<void> {
  await answer.after;
  if (answer.drop === "request") {
    response.destroy();
    return;
  }
  const given = typeof answer.body === "string" ? new TextEncoder().encode(answer.body) : (answer.body ?? Uint8Array.of());
  const body = new Uint8Array(given.length + (answer.hugeBytes ?? 0)).fill(32);
  body.set(given);
  response.writeHead(answer.status ?? 200, { "content-length": String(body.length), ...answer.headers });
  if (answer.drop === "body") {
    response.write(body.subarray(0, Math.floor(body.length / 2)), () => response.destroy());
    return;
  }
  if (answer.drip) {
    response.flushHeaders();
    for (const byte of body) {
      if (response.destroyed) return;
      response.write(Uint8Array.of(byte));
      await answer.drip.next();
    }
    response.end();
    return;
  }
  response.end(body);
}
