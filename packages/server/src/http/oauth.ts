/**
 * `POST /oauth/token` (A5): client credentials for a one-hour token, so that clients that know only OAuth can call. The client's id is
 * the key's id, its secret the key. Errors have the form of RFC 6749, section 5.2, not ours: OAuth libraries read them.
 */
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Clock } from "../clock.ts";
import type { Authenticator } from "../identity/authenticate.ts";
import { issueToken } from "../identity/token.ts";
import type { Vault } from "../identity/vault.ts";
import { readJson } from "./json-text.ts";
import { readQuery } from "./query-text.ts";

const TOKEN_SECONDS = 3600;
const BODY_LIMIT = 16_384;

type Refusal = "invalid_request" | "invalid_client" | "unsupported_grant_type";

/** A refusal in the words of RFC 6749. */
class OauthRefusal extends Error {
  readonly error: Refusal;
  constructor(error: Refusal, message: string) {
    super(message);
    this.error = error;
  }
}

/** The fields of a form or JSON body, text only. */
function readFields(request: FastifyRequest): Record<string, string> {
  if (!(request.body instanceof Uint8Array)) return {};
  try {
    if (!(request.headers["content-type"] ?? "").startsWith("application/json"))
      return readQuery(Buffer.from(request.body).toString("utf8"));
    const value = readJson(request.body);
    if (typeof value !== "object" || value === null) throw new Error("the body must be an object");
    return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  } catch (error) {
    throw new OauthRefusal("invalid_request", error instanceof Error ? error.message : "the body cannot be read");
  }
}

/** Id and secret of a Basic header; each is form-encoded inside (RFC 6749, section 2.3.1). */
function readBasic(header: string): [id: string, secret: string] | null {
  const [scheme, coded] = header.split(" ", 2);
  if (scheme?.toLowerCase() !== "basic" || coded === undefined) return null;
  const text = Buffer.from(coded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 0) return null;
  try {
    return [decodeURIComponent(text.slice(0, colon)), decodeURIComponent(text.slice(colon + 1))];
  } catch {
    return null;
  }
}

/** Adds the route; answers it. */
export function addOauth(
  app: FastifyInstance,
  deps: { authenticator: Pick<Authenticator, "exchange">; vault: Pick<Vault, "sign">; clock: Clock },
): { method: string; path: string }[] {
  const grant = async (request: FastifyRequest): Promise<{ access_token: string; token_type: "Bearer"; expires_in: number }> => {
    const fields = readFields(request);
    const header = request.headers.authorization;
    const basic = header === undefined ? undefined : readBasic(header);
    if (basic === null) throw new OauthRefusal("invalid_client", "the Authorization header must be Basic with the key's id and the key");
    if (basic !== undefined && fields.client_secret !== undefined) {
      throw new OauthRefusal("invalid_request", "give the client's secret once: by Basic or in the body");
    }
    if (fields.grant_type === undefined) throw new OauthRefusal("invalid_request", "grant_type is required");
    if (fields.grant_type !== "client_credentials") {
      throw new OauthRefusal("unsupported_grant_type", "grant_type must be client_credentials");
    }
    const [id, secret] = basic ?? [fields.client_id ?? "", fields.client_secret ?? ""];
    const found = await deps.authenticator.exchange(id, secret);
    if (found === null) throw new OauthRefusal("invalid_client", "the client is unknown, or its secret is wrong or has expired");
    const seconds = Math.min(TOKEN_SECONDS, found.expiresInSeconds ?? TOKEN_SECONDS);
    return {
      access_token: issueToken(deps.vault, found.caller.keyId, deps.clock.now() + seconds * 1000),
      token_type: "Bearer",
      expires_in: seconds,
    };
  };

  app.register((scope, _options, done) => {
    scope.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "buffer" }, (_request, body, next) => next(null, body));
    scope.post("/oauth/token", { bodyLimit: BODY_LIMIT }, async (request, reply) => {
      reply.header("pragma", "no-cache");
      try {
        return await reply.send(await grant(request));
      } catch (error) {
        if (!(error instanceof OauthRefusal)) throw error;
        if (error.error === "invalid_client") reply.code(401).header("www-authenticate", 'Basic realm="millrace"');
        else reply.code(400);
        return reply.send({ error: error.error, error_description: error.message });
      }
    });
    done();
  });
  return [{ method: "POST", path: "/oauth/token" }];
}
