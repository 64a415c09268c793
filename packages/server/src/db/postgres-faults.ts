/** Which errors of PostgreSQL and its driver mean that the database is away for now, and which that a transaction may simply try again. */
import { Fault } from "@millrace/contract";

const NETWORK = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
]);
/** A standby, or what was the primary: another connection may lead to the one that takes writes. */
const READ_ONLY = "25006";
/** Shutting down, crashed, starting, idle within a transaction for too long, too many connections, and the codes of class 08. */
const AWAY = /^(57P0[123]|25P03|25006|53300|08...)$/;
/** Somebody's limit ended the statement, or somebody did: nothing happened, and the connection goes on. */
const CANCELLED = /^(57014|55P03)$/;
const BY_TEXT =
  /Connection terminated|connection timeout|Query read timeout|Client has encountered a connection error|timeout exceeded when trying to connect/i;

const codeOf = (error: unknown) => (error instanceof Error && "code" in error ? String(error.code) : "");

/** A deadlock or a serialization failure: nothing happened, and the same transaction may pass the next time. */
export const isTransient = (error: unknown): boolean => codeOf(error) === "40P01" || codeOf(error) === "40001";

/** A table was changed since this connection prepared the statement: nothing happened, and a new connection prepares it anew. */
export const isOutdated = (error: unknown): boolean =>
  codeOf(error) === "0A000" && error instanceof Error && error.message.includes("cached plan");

/** Whether the connection that threw this is of no more use. */
export function isAway(error: unknown): boolean {
  const code = codeOf(error);
  return NETWORK.has(code) || AWAY.test(code) || (code === "" && error instanceof Error && BY_TEXT.test(error.message));
}

/** Throws for a database that takes no writes: all state is read where it is written. */
export function demandWritable(readOnly: string): void {
  if (readOnly === "on") throw Object.assign(new Error("the session is read-only"), { code: READ_ONLY });
}

/** A database that is away, as callers hear it; its cause, which no other `unavailable` has, is for the log. */
export function unreachable(error: unknown): Fault {
  const text = codeOf(error) === READ_ONLY ? "The database takes no writes." : "The database can't be reached.";
  const fault = new Fault("unavailable", `${text} Try again shortly.`, { retryAfterSeconds: 1 });
  fault.cause = error;
  return fault;
}

/** The error as callers hear it: a lost database and a cancelled statement are `unavailable`, everything else is itself. */
export function faultOf(error: unknown): unknown {
  if (isAway(error)) return unreachable(error);
  if (!CANCELLED.test(codeOf(error))) return error;
  return new Fault("unavailable", "The database ended a statement before it was done. Try again shortly.", { retryAfterSeconds: 1 });
}
