/** What a handler is: one function per operation of the contract, given a call and its validated input, answering the wire shape. */
import type { Answer, Input, OperationName, Operations } from "@millrace/contract";
import type { Caller } from "../identity/caller.ts";
import type { IdempotencyKey } from "../store/types.ts";

/** One request, after authentication. */
export interface Call {
  caller: Caller;
  requestId: string;
  /** From the `Idempotency-Key` header, on operations that honour it. */
  idempotency: IdempotencyKey | null;
  /** The sender's W3C `traceparent`, when it gave a valid one. */
  traceparent: string | undefined;
  /** The `X-Account-Id` header: the project that a call of the Basaltic door means, by id or name. */
  readonly account?: string | undefined;
  /** Aborts when the client hangs up before the answer was written. Made on first use: only waiting handlers should touch it. */
  readonly gone: AbortSignal;
  /**
   * Calls `undo` once if the connection closed before the answer was handed over (Q17), also when that happened before this call.
   * Never called after an answer that was written in full. What it throws or rejects with is logged.
   */
  undelivered(undo: () => unknown): void;
}

export type Handler<Name extends OperationName> = (call: Call, input: Input<Operations[Name]>) => Promise<Answer<Operations[Name]>>;
export type Handlers = { [Name in OperationName]: Handler<Name> };
