/** One request as handlers see it. What few handlers need (`gone`, `undelivered`) costs nothing until it is asked for. */
import type { ServerResponse } from "node:http";
import type { Caller } from "../identity/caller.ts";
import type { IdempotencyKey } from "../store/types.ts";
import type { Call } from "./handler.ts";

/** A call that answers through `raw`; `onError` hears of an undo that failed. */
export class HttpCall implements Call {
  readonly caller: Caller;
  readonly requestId: string;
  readonly idempotency: IdempotencyKey | null;
  readonly traceparent: string | undefined;
  readonly #raw: ServerResponse;
  readonly #onError: (error: unknown) => void;
  #gone: AbortController | undefined;

  constructor(
    given: { caller: Caller; requestId: string; idempotency: IdempotencyKey | null; traceparent: string | undefined },
    raw: ServerResponse,
    onError: (error: unknown) => void,
  ) {
    this.caller = given.caller;
    this.requestId = given.requestId;
    this.idempotency = given.idempotency;
    this.traceparent = given.traceparent;
    this.#raw = raw;
    this.#onError = onError;
  }

  get account(): string | undefined {
    const header = this.#raw.req.headers["x-account-id"];
    return typeof header === "string" ? header : undefined;
  }

  get gone(): AbortSignal {
    if (this.#gone === undefined) {
      const controller = new AbortController();
      const raw = this.#raw;
      this.#gone = controller;
      if (raw.destroyed) controller.abort();
      else raw.once("close", () => raw.writableEnded || controller.abort());
    }
    return this.#gone.signal;
  }

  undelivered(undo: () => unknown): void {
    const raw = this.#raw;
    const run = async (): Promise<void> => {
      try {
        await undo();
      } catch (error) {
        this.#onError(error);
      }
    };
    if (raw.destroyed) void run();
    else raw.once("close", () => raw.writableFinished || void run());
  }
}
