/** The id of a request: the caller's `X-Request-Id` when it is usable, else one of our own; it is in the answer and in every log line. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";

const USABLE = /^[A-Za-z0-9._:/+=-]{1,128}$/;

/** Makes ids that are unique over processes, at the cost of a counter. */
export function createRequestIds(): (request: IncomingMessage) => string {
  const process = randomBytes(9).toString("base64url");
  let count = 0;
  return (request) => {
    const given = request.headers["x-request-id"];
    if (typeof given === "string" && USABLE.test(given)) return given;
    count += 1;
    return `${process}.${count.toString(36)}`;
  };
}
