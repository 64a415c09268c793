/** Why a database can't be used, for whoever starts a server on it or looks at it: callers of the API hear less of where it is. */
import { Fault } from "@millrace/contract";

/** The error; in place of a Fault about a database that is away, one that says what the driver does. */
export function plainReason(error: unknown): unknown {
  if (!(error instanceof Fault) || !(error.cause instanceof Error)) return error;
  const { message, code } = error.cause as NodeJS.ErrnoException;
  // Where every address of a host refused, there is no message, only a code.
  return new Error(`${error.message.split(". ")[0]}: ${message || code}`);
}
