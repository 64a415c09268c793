/**
 * One request, one answer or failure (P9, P19, P20). One deadline covers checking, connecting, headers and body. Nothing is sent twice,
 * nothing is followed, nothing is decompressed, and what is kept of an answer is bounded, for one attempt and for all of them together.
 */
import { Fault } from "@millrace/contract";
import type { LRUCache } from "lru-cache";
import type { Agent } from "./agent.ts";
import { type AnswerBody, answerBody, maxAnswerBytes, type Room } from "./answer-body.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Asker, Connection } from "./connection.ts";
import { type Failure, type Resolve, vet } from "./egress.ts";
import { failureOf } from "./failures.ts";
import { requestHead } from "./request-head.ts";
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
  /** Has an attempt go on, by `resume`, once the turn of the loop has read what has come by now. */
  afterTurn: (one: Exchange) => void;
}

/** Makes `afterTurn`: one immediate for all that wait. */
export function createAfterTurn(): (one: Exchange) => void {
  let waiting: Exchange[] = [];
  return (one) => {
    if (waiting.push(one) > 1) return;
    setImmediate(() => {
      const all = waiting;
      waiting = [];
      for (const each of all) each.resume();
    });
  };
}

/** Why an attempt ended that was aborted. */
export const stopped: Failure = { class: "connection", message: "the server is stopping" };

const EMPTY = new Uint8Array();

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

/** One attempt under way: `start` runs it to its result, `stop` aborts it. One object, for a closure for each event costs more than they do. */
export class Exchange implements Asker {
  readonly #engine: Engine;
  readonly #request: DeliveryRequest;
  readonly #done: (result: DeliveryResult) => void;
  #startedMs = 0;
  #over = false;
  #cancelDeadline: (() => void) | undefined;
  #cancelDial: (() => void) | undefined;
  #target: Target | undefined;
  #connection: Connection | undefined;
  #head: AnswerHead | undefined;
  #body: AnswerBody | undefined;

  /** `done` is called once. */
  constructor(engine: Engine, request: DeliveryRequest, done: (result: DeliveryResult) => void) {
    this.#engine = engine;
    this.#request = request;
    this.#done = done;
  }

  start(): void {
    const engine = this.#engine;
    const { timeoutMs, url } = this.#request;
    this.#startedMs = engine.now();
    this.#cancelDeadline = engine.after(timeoutMs, () =>
      this.#fail({ class: "timeout", message: `no complete answer within ${Math.round(timeoutMs) / 1000} s` }),
    );
    const target = targetOf(engine, url);
    if (target instanceof Fault) {
      this.#fail({ class: "refused", message: target.message.slice(0, 200) });
      return;
    }
    this.#target = target;
    this.#connection = engine.agent.idle(target);
    // The end of a kept connection often comes right behind its last answer.
    if (this.#connection === undefined) void this.#dial(target);
    else engine.afterTurn(this);
  }

  /** Goes on with a kept connection. Found closed by now it has carried nothing, so that a new one repeats nothing. */
  resume(): void {
    if (this.#over) return;
    const connection = this.#connection as Connection;
    const target = this.#target as Target;
    if (connection.socket.destroyed) {
      this.#connection = undefined;
      void this.#dial(target);
    } else this.#send(connection, target);
  }

  stop(): void {
    this.#fail(stopped);
  }

  async #dial(target: Target): Promise<void> {
    const { egress, resolve, agent } = this.#engine;
    const vetted = await vet(target, egress, resolve);
    if (this.#over) return;
    if ("failure" in vetted) return this.#fail(vetted.failure);
    try {
      this.#cancelDial = agent.dial(target, vetted.addresses, (result) => {
        this.#cancelDial = undefined;
        if ("class" in result) this.#fail(result);
        else this.#send(result, target);
      });
    } catch (error) {
      this.#fail(failureOf(error));
    }
  }

  #send(connection: Connection, target: Target): void {
    this.#connection = connection;
    const head = requestHead(target, this.#request);
    if (head === null) this.#fail({ class: "connection", message: "the request cannot be sent" });
    else connection.ask(head, this.#request.body, this);
  }

  onHead(head: AnswerHead): void {
    if (head.status === 101) this.#fail({ class: "connection", message: "the endpoint changed the protocol" });
    this.#head = head;
  }

  onData(bytes: Uint8Array): void {
    const head = this.#head as AnswerHead;
    const connection = this.#connection as Connection;
    this.#body ??= answerBody(this.#engine.room, isWhole(head), {
      pause: () => connection.socket.pause(),
      // Never from within another answer's reading.
      resume: () => void setImmediate(() => connection.socket.resume()),
    });
    if (this.#body.add(bytes)) return;
    const kept = this.#body.take();
    this.#answer(head, kept, true);
    this.#engine.agent.drop(connection);
  }

  onEnd(keepMs: number): void {
    const kept = this.#body?.take() ?? EMPTY;
    this.#engine.agent.release(this.#connection as Connection, keepMs);
    this.#answer(this.#head as AnswerHead, kept, this.#body?.truncated ?? false);
  }

  onBroken(failure: Failure): void {
    this.#fail(failure);
  }

  #answer({ status, headers }: AnswerHead, body: Uint8Array, truncated: boolean): void {
    this.#end({ kind: "answer", status, headers, body, truncated, durationMs: this.#durationMs() });
  }

  /** Drops what is under way as well: a dial, or the connection that carries the request. */
  #fail({ class: kind, message, code }: Failure): void {
    if (this.#over) return;
    const named = code === undefined ? {} : { code };
    this.#end({ kind: "failure", class: kind, message, ...named, durationMs: this.#durationMs() });
    this.#cancelDial?.();
    if (this.#connection !== undefined) this.#engine.agent.drop(this.#connection);
  }

  #durationMs(): number {
    return Math.round(this.#engine.now() - this.#startedMs);
  }

  #end(result: DeliveryResult): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelDeadline?.();
    this.#body?.close();
    this.#done(result);
  }
}

/** All of a success may decide; anything else, or what is too long by its own account, is kept for reading only. */
function isWhole({ status, headers }: AnswerHead): boolean {
  return status < 300 && !(Number(headers["content-length"]) > maxAnswerBytes);
}
