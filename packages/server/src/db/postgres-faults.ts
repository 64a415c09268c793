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
/** Shutting down, crashed, starting, idle within a transaction for too long, too many connections, and the codes of class 08. */
const AWAY = /^(57P0[123]|25P03|53300|08...)$/;
/** No room on the disk: nothing happened, and the connection goes on. */
const FULL = "53100";
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

/** A database that can't be reached, as callers hear it; the log is told why. */
export function unreachable(error: unknown): Fault {
  const fault = new Fault("unavailable", "The database can't be reached. Try again shortly.", { retryAfterSeconds: 1 });
  fault.cause = error;
  return fault;
}

/** The error as callers hear it: a lost or full database is `unavailable`, everything else is itself. */
export function faultOf(error: unknown): unknown {
  if (isAway(error)) return unreachable(error);
  return codeOf(error) === FULL ? new Fault("unavailable", "The database's disk is full.", { retryAfterSeconds: 5 }) : error;
}
