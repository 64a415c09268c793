/**
 * The HTTP server: limits, request ids, security headers, how failures are told; and the routes that others add. Invariant: whatever
 * comes in, what goes out is an answer of the contract or a `Problem`, and nothing waits for ever.
 */
import type { Socket } from "node:net";
import { Fault } from "@millrace/contract";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import type { Audit } from "../identity/audit.ts";
import type { Authenticator } from "../identity/authenticate.ts";
import type { Vault } from "../identity/vault.ts";
import type { Executions } from "../workflow/executions.ts";
import { addBackup, type Backup } from "./backup.ts";
import { addLinks, type Links } from "./basaltic/links.ts";
import { addExecutionCalls } from "./execution-calls.ts";
import type { Handlers } from "./handler.ts";
import type { Load } from "./load.ts";
import { createMeter } from "./meter.ts";
import { addOauth } from "./oauth.ts";
import { addOperations } from "./operations.ts";
import { addProbes } from "./probes.ts";
import { type Logger, problemOf } from "./problem.ts";
import { addReference } from "./reference.ts";
import { createRequestIds } from "./request-id.ts";
import { createMethodTable } from "./routing.ts";

export interface AppDeps {
  /** What is missing has no route; `main.ts` gives them all. */
  handlers: Partial<Handlers>;
  authenticator: Authenticator;
  vault: Pick<Vault, "sign">;
  clock: Clock;
  load: Load;
  registry: Registry;
  logger: Logger;
  /** Whether the store answers: for `/readyz`. Must not hang. */
  ready: () => Promise<boolean>;
  limits?: Partial<AppLimits>;
  /** Keeps management calls; without it none are kept. */
  audit?: Audit;
  /** Where the links of notifications lead; without them there are no such routes. */
  links?: Links;
  /** What executions of workflows report to; without them there are no such routes. */
  executions?: Executions;
  /** How the whole database is copied; without it there is no such route. */
  backup?: Backup;
}

export interface AppLimits {
  maxConnections: number;
  /** From the first byte of a request to its last. */
  requestTimeoutMs: number;
  headersTimeoutMs: number;
  keepAliveTimeoutMs: number;
  maxHeaderBytes: number;
}

/** Generous to slow lines, deadly to slow-loris. */
const defaultLimits: AppLimits = {
  maxConnections: 10_000,
  requestTimeoutMs: 60_000,
  headersTimeoutMs: 15_000,
  keepAliveTimeoutMs: 72_000,
  maxHeaderBytes: 16_384,
};

const NO_QUERY: Record<string, unknown> = {};

/** What a broken request gets, which never became one: a status line and a `Problem` written by hand. */
function refuseConnection(error: Error & { code?: string }, socket: Socket, requestId: string): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, message] =
    error.code === "HPE_HEADER_OVERFLOW"
      ? ["431 Request Header Fields Too Large", "headers: must have at most 16,384 bytes together"]
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? ["408 Request Timeout", "the request did not arrive in time"]
        : ["400 Bad Request", "the request is not HTTP/1.1"];
  const body = JSON.stringify({ error: { code: "invalid_request", message, requestId } });
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}`;
  socket.end(`${head}\r\nX-Request-Id: ${requestId}\r\nConnection: close\r\n\r\n${body}`);
}

/** Builds the server; nothing listens yet. Closing it closes idle connections and waits for answers under way. */
export function createApp(deps: AppDeps): FastifyInstance {
  const { logger } = deps;
  const limits = { ...defaultLimits, ...deps.limits };
  const requestIds = createRequestIds();
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const { status, headers, body } = problemOf(error, request.id, logger, request.routeOptions?.bodyLimit);
    reply.code(status).headers(headers).type("application/json; charset=utf-8").send(JSON.stringify(body));
  };
  const app = fastify({
    logger: false,
    genReqId: requestIds,
    requestIdHeader: false,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    http: { maxHeaderSize: limits.maxHeaderBytes, connectionsCheckingInterval: Math.min(5_000, limits.headersTimeoutMs) },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, "unread"),
    frameworkErrors: (error, request, reply) => {
      protect(request, reply);
      fail(error, request, reply);
    },
    // Parsed by the operation itself, strictly; most requests have none.
    routerOptions: { maxParamLength: 1_000, querystringParser: (text) => (text === "" ? NO_QUERY : { text }) },
  });
  app.server.maxConnections = limits.maxConnections;
  app.server.headersTimeout = limits.headersTimeoutMs;

  app.addHook("onRequest", (request, reply, done) => {
    protect(request, reply);
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    const encoding = request.headers["content-encoding"];
    if (encoding === undefined || encoding === "identity") done(null, body);
    else done(new Fault("unsupported_media_type", `Content-Encoding: must be identity, got ${encoding.slice(0, 100)}`));
  });
  app.setErrorHandler(fail);

  const links = deps.links === undefined ? [] : addLinks(app, deps.links, deps.audit);
  const { executions, load } = deps;
  const calls = executions === undefined ? [] : addExecutionCalls(app, { executions, load });
  const backup = deps.backup === undefined ? [] : addBackup(app, { ...deps, backup: deps.backup });
  const extra = [addProbes(app, deps), addOauth(app, deps), addReference(app), links, calls, backup].flat();
  addOperations(app, { ...deps, meter: createMeter(deps.registry) });

  const methodsOf = createMethodTable(extra);
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const methods = methodsOf(path);
    if (methods.length === 0) return fail(new Fault("not_found", "there is nothing at this path"), request, reply);
    reply.header("allow", methods.join(", "));
    if (request.method === "OPTIONS") return reply.code(204).send();
    return fail(new Fault("method_not_allowed", `this path takes ${methods.join(", ")}`), request, reply);
  });
  return app;
}

/** What every answer carries: its request id, and that no browser may guess its type or keep it. */
function protect(request: FastifyRequest, reply: FastifyReply): void {
  reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff").header("cache-control", "no-store");
}
