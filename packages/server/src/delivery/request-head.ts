/** The head of a request as it is written: nothing a format or a message says can add a line to it or change where its body ends. */
import type { Target } from "./target.ts";
import type { DeliveryRequest } from "./types.ts";

const line = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*$/;
/** What the engine says itself, and what belongs to a connection. */
const ours: ReadonlySet<string> = new Set([
  "host",
  "connection",
  "content-length",
  "transfer-encoding",
  "keep-alive",
  "upgrade",
  "expect",
  "te",
  "trailer",
]);

/** The head as latin1; `null` when a header can't be sent. */
export function requestHead(target: Target, { method, headers, body }: DeliveryRequest): string | null {
  let head = `${method} ${target.path} HTTP/1.1\r\nhost: ${target.authority}\r\nconnection: keep-alive\r\n`;
  for (const name of Object.keys(headers)) {
    const text = `${name}: ${headers[name]}`;
    if (!line.test(text) || ours.has(name.toLowerCase())) return null;
    head += `${text}\r\n`;
  }
  return `${head}content-length: ${body.length}\r\n\r\n`;
}
