/**
 * Serves a route handler from `node:http`, Express or Fastify (C12). It needs the raw bytes of the body: from the stream itself, or from
 * a framework that kept them. The shapes below are the few things it touches, so that no Node type is needed to import this package.
 */
import { asBytes } from "./codec.ts";
import type { PushHandler } from "./handler.ts";
import { type PlainCall, plainOf } from "./plain.ts";
import { maxBodyBytes } from "./request-body.ts";
import { messageOf } from "./text.ts";

/** A `node:http` request, an Express request, or Fastify's (which has `raw`). */
export interface NodeRequest {
  method?: string | undefined;
  url?: string | undefined;
  headers: Record<string, string | string[] | undefined>;
  /** What a framework read already. */
  body?: unknown;
  rawBody?: unknown;
  raw?: unknown;
}
/** A `node:http` response, an Express response, or Fastify's reply (which has `raw` and `hijack`). */
export type NodeResponse = object;
/** What `toNodeHandler` makes. Resolves when the answer is written; never rejects. */
export type NodeHandler = (request: NodeRequest, response: NodeResponse) => Promise<void>;

interface RawRequest extends NodeRequest {
  readableEnded?: boolean;
  originalUrl?: string;
  [Symbol.asyncIterator]?(): AsyncIterator<unknown>;
}
interface RawResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body?: Uint8Array): unknown;
  on(event: string, listener: () => void): unknown;
  readonly writableFinished?: boolean;
}

type OnGone = PlainCall["onGone"];

const utf8 = new TextEncoder();

/** The raw bytes, cut behind the first that is too many; `undefined` when a parser has taken them. */
async function readRaw(outer: NodeRequest, raw: RawRequest, most: number): Promise<Uint8Array | undefined> {
  const kept = most + 1;
  for (const parsed of [outer.rawBody, outer.body]) {
    if (typeof parsed === "string") return utf8.encode(parsed);
    const bytes = asBytes(parsed);
    if (bytes !== undefined) return bytes;
  }
  if (raw.readableEnded === true && Number(raw.headers["content-length"] ?? 1) > 0) return undefined;
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (Number(raw.headers["content-length"] ?? 0) > most) return new Uint8Array();
  for await (const chunk of raw as AsyncIterable<Uint8Array>) {
    // Leaving the loop would cut the connection before the answer: what is too much is read and dropped.
    if (length < kept) chunks.push(chunk);
    length += chunk.length;
  }
  const whole = new Uint8Array(Math.min(length, kept));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk.subarray(0, whole.length - at), at);
    at += chunk.length;
  }
  return whole;
}

function headersOf(given: NodeRequest["headers"]): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || name.startsWith(":")) continue;
    for (const each of Array.isArray(value) ? value : [value]) headers.append(name, each);
  }
  return headers;
}

interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Uint8Array;
}

/** Calls a handler with what it wants: the bytes as they are, or a `Request` of them. */
async function ask(handler: PushHandler, raw: RawRequest, bytes: Uint8Array, most: number, onGone: OnGone): Promise<Answer> {
  const direct = plainOf(handler);
  if (direct !== undefined) {
    const tooLong = bytes.length > most || Number(raw.headers["content-length"] ?? 0) > most;
    const header = (name: string): string | null => raw.headers[name]?.toString() ?? null;
    const { status, headers, body } = await direct({ header, body: tooLong ? undefined : bytes, onGone });
    return { status, headers, body: utf8.encode(body) };
  }
  const gone = new AbortController();
  onGone(() => gone.abort());
  const method = raw.method ?? "POST";
  const request = new Request(new URL(raw.url ?? "/", "http://localhost"), {
    method,
    headers: headersOf(raw.headers),
    signal: gone.signal,
    ...(method === "GET" || method === "HEAD" ? {} : { body: new Uint8Array(bytes) }),
  });
  const answer = await handler(request);
  return { status: answer.status, headers: Object.fromEntries(answer.headers), body: new Uint8Array(await answer.arrayBuffer()) };
}

/** Has the listener of the last call called when the caller hangs up before the answer. */
function hangUpOf(response: RawResponse): OnGone {
  let gone = false;
  let tell = (): void => {};
  response.on("close", () => {
    if (response.writableFinished === true) return;
    gone = true;
    tell();
  });
  return (listener) => {
    tell = listener;
    if (gone) listener();
  };
}

/**
 * Wraps a route handler for `createServer(…)`, `app.post(path, …)` of Express, and Fastify's route handlers. `most` is how many bytes of
 * a body the handler wants; beyond the longest delivery of a message unless given.
 */
export function toNodeHandler(handler: PushHandler, most: number = maxBodyBytes): NodeHandler {
  return async (outer, given) => {
    const reply: { raw?: unknown; hijack?: unknown } = given;
    const raw = (outer.raw ?? outer) as RawRequest;
    const response = (reply.raw ?? reply) as RawResponse;
    if (typeof reply.hijack === "function") reply.hijack();
    const onGone = hangUpOf(response);
    let answer: Answer = { status: 500, headers: {}, body: new Uint8Array() };
    try {
      const bytes = await readRaw(outer, raw, most);
      if (bytes !== undefined) answer = await ask(handler, raw, bytes, most, onGone);
      else {
        console.error(
          "The body of a delivery was parsed before its signature could be checked. Mount this route ahead of body parsers (Express: use express.raw({ type: () => true }); Fastify: add a content type parser for * with parseAs: 'buffer').",
        );
      }
    } catch (error) {
      console.error(`A delivery could not be handled: ${messageOf(error)}`);
    }
    const { status, headers, body } = answer;
    if (status !== 204) headers["content-length"] = String(body.length);
    response.writeHead(status, headers);
    response.end(body);
  };
}
