/**
 * One request, one answer or failure (P9, P19, P20). The deadline covers checking, connecting, headers and body together, on real time:
 * it is the network's, not the virtual clock's. Nothing is sent twice, nothing is followed, nothing is decompressed, and what is kept of
 * an answer is bounded for one attempt and for all of them together.
 */
import { Fault } from "@millrace/contract";
import { LRUCache } from "lru-cache";
import { type Agent, type Connection, createAgent } from "./agent.ts";
import { type AnswerBody, answerBody, createRoom, maxAnswerBytes } from "./answer-body.ts";
import { type Failure, type Resolve, systemResolve, vet } from "./egress.ts";
import { failureOf } from "./failures.ts";
import { type Egress, egressOf, readTarget, type Target } from "./target.ts";
import type { Attempt, DeliveryRequest, DeliveryResult, EgressPolicy } from "./types.ts";

export interface AttemptOptions {
  policy: EgressPolicy;
  /** The machine's name service unless given. */
  resolve?: Resolve;
  /** Trusted certificate authorities (PEM); those built into Node unless given. */
  ca?: readonly string[];
  /** Monotonic real milliseconds. */
  now?: () => number;
}

export interface Attempts {
  attempt: Attempt;
  /** Open sockets, for tests and metrics. */
  readonly open: number;
  /** Ends everything under way as a `connection` failure and closes all sockets. */
  close(): void;
}

/** Makes the one way in which the server calls endpoints. */
export function createAttempt(options: AttemptOptions): Attempts {
  const { policy } = options;
  const now = options.now ?? (() => performance.now());
  const egress = egressOf(policy);
  const engine: Engine = {
    policy,
    egress,
    now,
    agent: createAgent({ ca: options.ca, now }),
    resolve: options.resolve ?? systemResolve((hostname) => egress.hosts.has(hostname)),
    targets: new LRUCache<string, Target | Fault>({ max: 10_000 }),
    room: createRoom(),
  };
  const running = new Set<() => void>();
  const bySignal = new WeakMap<AbortSignal, Set<() => void>>();
  let closed = false;

  /** One listener per signal, however many attempts hang on it. */
  const underSignal = (signal: AbortSignal): Set<() => void> => {
    let set = bySignal.get(signal);
    if (set === undefined) {
      const fresh = new Set<() => void>();
      signal.addEventListener("abort", () => [...fresh].forEach((abort) => void abort()), { once: true });
      bySignal.set(signal, fresh);
      set = fresh;
    }
    return set;
  };

  return {
    attempt: (request, signal) =>
      new Promise((resolve) => {
        if (closed || signal?.aborted) {
          resolve({ kind: "failure", ...stopped, durationMs: 0 });
          return;
        }
        const group = signal === undefined ? undefined : underSignal(signal);
        const abort = exchange(engine, request, (result) => {
          running.delete(abort);
          group?.delete(abort);
          resolve(result);
        });
        running.add(abort);
        group?.add(abort);
      }),
    get open() {
      return engine.agent.open;
    },
    close() {
      closed = true;
      for (const abort of [...running]) abort();
      engine.agent.close();
    },
  };
}

interface Engine {
  policy: EgressPolicy;
  egress: Egress;
  now: () => number;
  agent: Agent;
  resolve: Resolve;
  targets: LRUCache<string, Target | Fault>;
  room: ReturnType<typeof createRoom>;
}

const stopped: Failure = { class: "connection", message: "the server is stopping" };

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
function exchange(engine: Engine, request: DeliveryRequest, done: (result: DeliveryResult) => void): () => void {
  const startedMs = engine.now();
  let over = false;
  /** Drops what is under way: a dial, or the connection that carries the request. */
  let cancel: (() => void) | undefined;
  let body: AnswerBody | undefined;

  const end = (result: Omit<Extract<DeliveryResult, { kind: "answer" }>, "durationMs"> | ({ kind: "failure" } & Failure)): void => {
    if (over) return;
    over = true;
    clearTimeout(deadline);
    body?.close();
    done({ ...result, durationMs: engine.now() - startedMs });
  };
  const fail = (failure: Failure): void => {
    const drop = cancel;
    end({ kind: "failure", class: failure.class, message: failure.message });
    drop?.();
  };
  const deadline = setTimeout(() => {
    fail({ class: "timeout", message: `no complete answer within ${Math.round(request.timeoutMs) / 1000} s` });
  }, request.timeoutMs);

  const dial = async (target: Target): Promise<void> => {
    const vetted = await vet(target, engine.egress, engine.resolve);
    if (over) return;
    if ("failure" in vetted) return fail(vetted.failure);
    cancel = engine.agent.dial(target, vetted.addresses, (result) => {
      cancel = undefined;
      if ("class" in result) fail(result);
      else send(result, target);
    });
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
      if (status === 204 || status === 304) return end({ kind: "answer", status, headers, body: new Uint8Array(), truncated: false });
      // Found closed before a byte was written: nothing was sent, so a new connection repeats nothing.
      if (!written && connection.reused) void dial(target);
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
          onResponseStart(controller, code, given) {
            if (over) return;
            if (code === 101) return fail({ class: "connection", message: "the endpoint changed the protocol" });
            if (code < 200) return;
            status = code;
            headers = given;
            // All of a success may decide; anything else, or what is too long by its own account, is kept for reading only.
            const whole = code < 300 && !(Number(given["content-length"]) > maxAnswerBytes);
            body = answerBody(engine.room, whole, {
              pause: () => controller.pause(),
              // Never from within another answer's parser.
              resume: () => void setImmediate(() => controller.resume()),
            });
          },
          onResponseData(_controller, chunk) {
            if (over || body === undefined || body.add(chunk)) return;
            const kept = body.take();
            end({ kind: "answer", status, headers, body: kept, truncated: true });
            engine.agent.drop(connection);
          },
          onResponseEnd() {
            if (over) return;
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
