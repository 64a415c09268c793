/** What main thread and worker say to each other. Every question has one answer, in order; a copy's end is said besides, when it comes. */
import { type ErrorCode, Fault, type FaultDetails } from "@millrace/contract";
import type { ColdAnswer, ColdCall } from "./engine.ts";
import type { Packed } from "./pack.ts";

/** What the worker is started with. `seed` makes its receipts repeatable in tests, `maxPages` stands for a full disk there. */
export interface WorkerOptions {
  path: string;
  relaxedSync: boolean;
  seed: number | null;
  maxPages: number | null;
}

/** `now` is the instant of the transaction. */
export type Question = { now: number } & (
  | { kind: "hot"; batch: Packed }
  | { kind: "cold"; call: ColdCall }
  | { kind: "backup"; path: string }
  | { kind: "close" }
);

export type Answer = { ready: [queueNo: number, inMs: number][] } & (
  | { kind: "open" }
  | { kind: "hot"; answer: Packed }
  | { kind: "cold"; answer: ColdAnswer }
  | { kind: "copying" }
  | { kind: "copied"; error: WireError | null }
  | { kind: "closed" }
  | { kind: "error"; error: WireError }
);

interface WireError {
  fault: { code: ErrorCode; details: FaultDetails | undefined } | null;
  code: string | null;
  message: string;
  stack: string | undefined;
}

/** An error as it crosses to the main thread. */
export function wireError(error: unknown): WireError {
  const e = error instanceof Error ? error : new Error(String(error));
  return {
    fault: e instanceof Fault ? { code: e.code, details: e.details } : null,
    code: "code" in e ? String(e.code) : null,
    message: e.message,
    stack: e.stack,
  };
}

/** The error that crossed: a `Fault` is one again, a database's error keeps its code. */
export function readError(wire: WireError): Error {
  if (wire.fault !== null) return new Fault(wire.fault.code, wire.message, wire.fault.details);
  const error = new Error(wire.message);
  if (wire.stack !== undefined) error.stack = wire.stack;
  return wire.code === null ? error : Object.assign(error, { code: wire.code });
}
