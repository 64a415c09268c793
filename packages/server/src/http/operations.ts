/**
 * Registers every operation of the contract as a route: authenticate, read, validate, hand to its handler, write the answer. Nothing
 * about a single operation is known here. This is the hot path: what a request does not use it does not pay for.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, type Operation, type OperationName, operations, routes } from "@millrace/contract";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Audit } from "../identity/audit.ts";
import type { Authenticator } from "../identity/authenticate.ts";
import type { Caller } from "../identity/caller.ts";
import { serializerOf } from "./answers.ts";
import { auditOf } from "./audit.ts";
import { HttpCall } from "./call.ts";
import type { Call, Handlers } from "./handler.ts";
import { readIdempotencyKey } from "./idempotency.ts";
import { readJson } from "./json-text.ts";
import { type Load, UNTOLD_BYTES } from "./load.ts";
import type { Meter } from "./meter.ts";
import type { Logger } from "./problem.ts";
import { readQuery } from "./query-text.ts";
import { filledPath, routerPath } from "./routing.ts";
import { validate } from "./validate.ts";

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const NO_BYTES = new Uint8Array(0);

type AnyHandler = (call: Call, input: { params: unknown; query: unknown; body: unknown }) => Promise<unknown>;

/** A response on its way; what its end must undo and count. */
interface Tracked extends ServerResponse {
  millrace?: { caller: Caller; bytes: number; load: Load; meter: Meter; name: OperationName };
}

function onClose(this: Tracked): void {
  const state = this.millrace;
  if (state === undefined) return;
  state.load.leave(state.bytes);
  state.meter.count(state.name, this.writableFinished ? this.statusCode : 499);
}

/** The length of the body that a request announces, in bytes. */
function announcedBytes({ headers }: IncomingMessage): number {
  const length = headers["content-length"];
  if (length !== undefined) return Number(length);
  return headers["transfer-encoding"] === undefined ? 0 : UNTOLD_BYTES;
}

/** Operations that take no body also take an empty one and `{}`, which many clients send. */
function withoutBody(body: unknown): undefined {
  const empty = body === undefined || (typeof body === "object" && body !== null && !Array.isArray(body) && Object.keys(body).length === 0);
  if (!empty) throw new Fault("invalid_request", "body: this operation takes none", { path: "body", bound: "no body" });
  return undefined;
}

export interface OperationDeps {
  handlers: Partial<Handlers>;
  authenticator: Authenticator;
  load: Load;
  meter: Meter;
  logger: Logger;
  /** Keeps management calls; without it none are kept. */
  audit?: Audit;
}

/** Adds the operations that have a handler. The body parser of `app` must hand over bytes. */
export function addOperations(app: FastifyInstance, deps: OperationDeps): void {
  for (const name of Object.keys(operations) as OperationName[]) {
    const handler = deps.handlers[name] as AnyHandler | undefined;
    if (handler !== undefined) addOperation(app, deps, name, handler);
  }
}

function addOperation(app: FastifyInstance, deps: OperationDeps, name: OperationName, handler: AnyHandler): void {
  const { authenticator, load, meter, logger } = deps;
  const operation: Operation = operations[name];
  const { method, path } = routes[name];
  const takesBody = operation.body.def.type !== "undefined";
  const hasQuery = Object.keys((operation.query as { shape?: object }).shape ?? {}).length > 0;
  const serialize = serializerOf(name);
  const audited = auditOf(deps.audit, name, operation.status);
  const undoFailed = (error: unknown): void => logger.error({ err: error }, "taking back an undelivered answer failed");

  const onRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    const raw = reply.raw as Tracked;
    const enter = (caller: Caller): void => {
      const bytes = announcedBytes(request.raw);
      // A body that is refused for its length is never read.
      const counted = bytes > operation.bodyLimit ? 0 : bytes;
      load.enter(counted);
      raw.millrace = { caller, bytes: counted, load, meter, name };
      raw.on("close", onClose);
      done();
    };
    const refuse = (error: Error): void => {
      meter.count(name, error instanceof Fault ? error.status : 500);
      done(error);
    };
    try {
      const caller = authenticator.authenticate(request.headers.authorization);
      if (caller instanceof Promise) caller.then(enter).catch(refuse);
      else enter(caller);
    } catch (error) {
      refuse(error as Error);
    }
  };

  const input = (request: FastifyRequest, bytes: Uint8Array): { params: unknown; query: unknown; body: unknown } => {
    const params = validate(operation.params, request.params, "path");
    const search = (request.query as { text?: string }).text;
    const query =
      search === undefined && !hasQuery ? {} : validate(operation.query, search === undefined ? {} : readQuery(search), "query");
    return { params, query, body: bodyOf(bytes) };
  };
  const bodyOf = (bytes: Uint8Array): unknown => {
    const body = readJson(bytes);
    return takesBody ? validate(operation.body, body, "body") : withoutBody(body);
  };

  const answerOf = (request: FastifyRequest, raw: ServerResponse, caller: Caller): Promise<unknown> => {
    const bytes = request.body instanceof Uint8Array ? request.body : NO_BYTES;
    const { headers } = request;
    const given = input(request, bytes);
    const idempotency =
      operation.idempotent && headers["idempotency-key"] !== undefined
        ? readIdempotencyKey(headers["idempotency-key"], name, filledPath(path, request.params as Record<string, string>), bytes)
        : null;
    const traceparent = typeof headers.traceparent === "string" && TRACEPARENT.test(headers.traceparent) ? headers.traceparent : undefined;
    return handler(new HttpCall({ caller, requestId: request.id, idempotency, traceparent }, raw, undoFailed), given);
  };

  app.route({
    method,
    url: routerPath(path),
    bodyLimit: operation.bodyLimit,
    onRequest,
    handler: async (request, reply) => {
      const { id: requestId, raw } = request;
      const { millrace: state } = reply.raw as Tracked;
      if (state === undefined) throw new Error("a request was not let in");
      const params = request.params as Record<string, string>;
      const answer = await (audited === undefined
        ? answerOf(request, reply.raw, state.caller)
        : audited({ caller: state.caller, requestId, params, raw }, async () => answerOf(request, reply.raw, state.caller)));
      reply.code(operation.status);
      if (operation.status === 204) return reply.send();
      return reply.type("application/json; charset=utf-8").send(serialize(answer));
    },
  });
}
