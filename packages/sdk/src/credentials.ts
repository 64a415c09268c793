/** Who a client is: an API key, or client credentials that are traded for tokens (`POST /oauth/token`) and traded again before they end. */
import { ApiError, ConfigurationError, ConnectionError } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

/** Client credentials: a key's id and the key itself. */
export interface ClientCredentials {
  clientId: string;
  clientSecret: string;
}

/** Gives the value of `Authorization`. */
export interface Authorizer {
  header(): Promise<string>;
  /** The server refused what `header` gave: whether another try may fare better. */
  refused(header: string): boolean;
}

/** An API key, which is always the same. */
export const keyAuthorizer = (apiKey: string): Authorizer => ({ header: async () => `Bearer ${apiKey}`, refused: () => false });

/** Stands in where nothing is configured: only calls fail, not making a queue handle. */
export const missingAuthorizer: Authorizer = {
  header: async () => {
    throw new ConfigurationError("No credentials. Set MILLRACE_API_KEY, or pass apiKey or credentials to new Millrace({…}).");
  },
  refused: () => false,
};

/** Tokens for client credentials. Calls at the same time share one request; a token is traded a minute before its end, at the latest halfway. */
export function tokenAuthorizer(url: string, { clientId, clientSecret }: ClientCredentials, runtime: Runtime): Authorizer {
  let held: { header: string; until: number } | undefined;
  let trading: Promise<string> | undefined;

  const trade = async (): Promise<string> => {
    const sentAt = runtime.now();
    let response: Response;
    let answer: { access_token?: unknown; expires_in?: unknown; error?: unknown; error_description?: unknown };
    try {
      response = await runtime.fetch(`${url}/oauth/token`, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({ grant_type: "client_credentials", client_id: clientId, client_secret: clientSecret }).toString(),
        redirect: "manual",
        signal: AbortSignal.timeout(30_000),
      });
      answer = (await response.json().catch(() => ({}))) as typeof answer;
    } catch (error) {
      throw new ConnectionError(`cannot reach ${url} for a token`, error);
    }
    if (!response.ok || typeof answer.access_token !== "string") {
      throw new ApiError({
        status: response.status,
        code: typeof answer.error === "string" ? answer.error : `http_${response.status}`,
        message: typeof answer.error_description === "string" ? answer.error_description : `no token: HTTP ${response.status}`,
      });
    }
    const seconds = typeof answer.expires_in === "number" ? answer.expires_in : 300;
    const header = `Bearer ${answer.access_token}`;
    held = { header, until: sentAt + Math.max(seconds / 2, seconds - 60) * 1000 };
    return header;
  };

  return {
    async header() {
      if (held !== undefined && runtime.now() < held.until) return held.header;
      trading ??= trade().finally(() => {
        trading = undefined;
      });
      return trading;
    },
    refused(header) {
      if (held?.header === header) held = undefined;
      return true;
    },
  };
}
