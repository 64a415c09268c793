/**
 * Handlers as adapters call them that have a request's bytes already. A `Request` with its body's stream and a `Response` cost several
 * times what a small call does, so they are made only for those who bring and want them.
 */
import type { PushHandler } from "./handler.ts";

/** A request that was read. */
export interface PlainCall {
  /** A header's value by its lower-case name. */
  header(name: string): string | null;
  /** The raw body; `undefined` when it is longer than the handler wants, or broke off. */
  body: Uint8Array | undefined;
  /** Has `listener` called when the caller hangs up before the answer. */
  onGone(listener: () => void): void;
}

/** What is answered. */
export interface PlainAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A refusal in one line of text. */
export const refusal = (status: number, why: string): PlainAnswer => ({
  status,
  headers: { "content-type": "text/plain; charset=utf-8" },
  body: `${why}\n`,
});

/** The same handler without the platform's objects. Never rejects. */
export type PlainHandler = (call: PlainCall) => Promise<PlainAnswer>;

const plain = Symbol("plain");

/** Adds to a handler how it is called directly. */
export const withPlain = (handler: PushHandler, direct: PlainHandler): PushHandler => Object.assign(handler, { [plain]: direct });

/** How a handler is called directly, where it can be. */
export const plainOf = (handler: PushHandler & { [plain]?: PlainHandler }): PlainHandler | undefined => handler[plain];

/** A plain answer as the platform's. */
export const responseOf = ({ status, headers, body }: PlainAnswer): Response => new Response(body, { status, headers });
