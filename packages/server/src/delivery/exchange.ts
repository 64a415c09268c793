/**
 * One request, one answer or failure (P9, P19, P20). One deadline covers checking, connecting, headers and body. Nothing is sent twice,
 * nothing is followed, nothing is decompressed, and what is kept of an answer is bounded, for one attempt and for all of them together.
 */
import { Fault } from "@millrace/contract";
import type { LRUCache } from "lru-cache";
import type { Agent, Connection } from "./agent.ts";
import { type AnswerBody, answerBody, maxAnswerBytes, type Room } from "./answer-body.ts";
import { type Failure, type Resolve, vet } from "./egress.ts";
import { failureOf } from "./failures.ts";
import { type Egress, readTarget, type Target } from "./target.ts";
import type { DeliveryRequest, DeliveryResult, EgressPolicy } from "./types.ts";

/** What all attempts share. */
export interface Engine {
  policy: EgressPolicy;
  egress: Egress;
  now: () => number;
  after: (ms: number, call: () => void) => () => void;
  agent: Agent;
  resolve: Resolve;
  targets: LRUCache<string, Target | Fault>;
  room: Room;
}

/** Why an attempt ended that was aborted. */
export const stopped: Failure = { class: "connection", message: "the server is stopping" };

function targetOf(engine: Engine, url: string): Target | Fault {
  let target = engine.targets.get(url);
  if (target === undefined) {
    try {
      target = readTarget(url, engine.policy);
    } catch (error) {
      target = error instanceof Fault ? error : new Fault("invalid_target", "target.url: it could not be checked");
    }
    engine.targets.set(url, target);
  }
  return target;
}

/** Runs one request to its result, which comes later than this function returns. Gives the function that aborts it. */
export function exchange(engine: Engine, request: DeliveryRequest, done: (result: DeliveryResult) => void): () => void {
  const startedMs = engine.now();
  let over = false;
  /** Drops what is under way: a dial, or the connection that carries the request. */
  let cancel: (() => void) | undefined;
  let body: AnswerBody | undefined;
  let whole = false;

  const end = (result: Omit<Extract<DeliveryResult, { kind: "answer" }>, "durationMs"> | ({ kind: "failure" } & Failure)): void => {
    if (over) return;
    over = true;
    cancelDeadline();
    body?.close();
    done({ ...result, durationMs: Math.round(engine.now() - startedMs) });
  };
  const fail = (failure: Failure): void => {
    const drop = cancel;
    end({ kind: "failure", ...failure });
    drop?.();
  };
  const cancelDeadline = engine.after(request.timeoutMs, () =>
    fail({ class: "timeout", message: `no complete answer within ${Math.round(request.timeoutMs) / 1000} s` }),
  );

  const dial = async (target: Target): Promise<void> => {
    const vetted = await vet(target, engine.egress, engine.resolve);
    if (over) return;
    if ("failure" in vetted) return fail(vetted.failure);
    try {
      cancel = engine.agent.dial(target, vetted.addresses, (result) => {
        cancel = undefined;
        if ("class" in result) fail(result);
        else send(result, target);
      });
    } catch (error) {
      fail(failureOf(error));
    }
  };

  const send = (connection: Connection, target: Target): void => {
    let written = false;
    let status = 0;
    let headers: Record<string, string | string[] | undefined> = {};
    cancel = () => engine.agent.drop(connection);
    const broken = (error: unknown): void => {
      if (over) return;
      cancel = undefined;
      engine.agent.drop(connection);
      // These never have a body: one that was announced or sent takes nothing from the answer.
      if (status === 204 || status === 304) end({ kind: "answer", status, headers, body: new Uint8Array(), truncated: false });
      // Found closed before a byte was written: nothing was sent, so a new connection repeats nothing.
      else if (!written && connection.reused) void dial(target);
      else fail(failureOf(error));
    };
    try {
      connection.client.dispatch(
        { path: target.path, method: request.method, headers: { ...request.headers, host: target.authority }, body: request.body },
        {
          onRequestStart() {
            written = true;
            connection.expect();
          },
          onResponseStart(_controller, code, given) {
            if (over) return;
            if (code === 101) return fail({ class: "connection", message: "the endpoint changed the protocol" });
            if (code < 200) return;
            status = code;
            headers = given;
            // All of a success may decide; anything else, or what is too long by its own account, is kept for reading only.
            whole = code < 300 && !(Number(given["content-length"]) > maxAnswerBytes);
          },
          onResponseData(controller, chunk) {
            if (over) return;
            body ??= answerBody(engine.room, whole, {
              pause: () => controller.pause(),
              // Never from within another answer's parser.
              resume: () => void setImmediate(() => controller.resume()),
            });
            if (body.add(chunk)) return;
            const kept = body.take();
            end({ kind: "answer", status, headers, body: kept, truncated: true });
            engine.agent.drop(connection);
          },
          onResponseEnd() {
            if (over) return;
            // A body without a length ends with its connection: the client takes a reset for that end, but it cut the answer off.
            if (connection.socket.errored && status !== 204 && status !== 304) return broken(connection.socket.errored);
            const kept = body?.take() ?? new Uint8Array();
            engine.agent.release(connection);
            end({ kind: "answer", status, headers, body: kept, truncated: body?.truncated ?? false });
          },
          onResponseError: (_controller, error) => broken(error),
        },
      );
    } catch (error) {
      written = true;
      broken(error);
    }
  };

  const target = targetOf(engine, request.url);
  if (target instanceof Fault) {
    queueMicrotask(() => fail({ class: "refused", message: target.message.slice(0, 200) }));
  } else {
    const idle = engine.agent.idle(target);
    if (idle === undefined) void dial(target);
    else send(idle, target);
  }
  return () => fail(stopped);
}
