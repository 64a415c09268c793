/** Where the server is. */
import { variable } from "./environment.ts";
import { ConfigurationError } from "./errors.ts";

/** The server's address without a slash at its end: given, `MILLRACE_URL`, or the local one. Throws `ConfigurationError` when it is no URL. */
export function addressOf(given: string | undefined): string {
  const url = (given ?? variable("MILLRACE_URL") ?? "http://127.0.0.1:7400").replace(/\/+$/, "");
  try {
    if (/^https?:$/.test(new URL(url).protocol)) return url;
  } catch {
    // said below
  }
  throw new ConfigurationError(`${url} is not an http or https URL: set MILLRACE_URL, or pass url`);
}
