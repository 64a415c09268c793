/** The decisions of apps and runs, free of effects: bounds of payloads, and what an app's mode asks for. */
import { Fault, invalid } from "@millrace/contract";
import { protocolLimits, type RunError } from "@millrace/contract/wire";

/** How many runs may be executed at once unless an app says otherwise (W1). */
export const MAX_CONCURRENCY = 100;

/** The JSON bytes of a payload that came through the API; `null` for none. Throws `payload_too_large` beyond 256 KiB (W3). */
export function payloadBytes(path: string, value: unknown): Uint8Array | null {
  if (value === undefined) return null;
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (bytes.length <= protocolLimits.payloadBytes) return bytes;
  const bound = `at most ${protocolLimits.payloadBytes} bytes of JSON text`;
  throw new Fault("payload_too_large", `${path}: ${bound}, got ${bytes.length}`, { path, bound, got: String(bytes.length) });
}

/** The JSON value of stored bytes. */
export const payloadOf = (bytes: Uint8Array | null): unknown => (bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes)));

/** A push app has a URL, a pull app has none. Throws `invalid_request`. */
export function checkMode(mode: "push" | "pull", url: string | undefined): void {
  if (mode === "push" && url === undefined) throw invalid("url", "is required of a push app");
  if (mode === "pull" && url !== undefined) throw invalid("url", "only a push app has one", url);
}

/** An error as it is stored and shown, of what a program said. */
export const shownError = ({ code, name, message, stack }: RunError): RunError => ({ code: code ?? "user", name, message, stack });
