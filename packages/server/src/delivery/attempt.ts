/**
 * The one way in which the server calls endpoints (P22). It holds what attempts share: connections, the policy, the room for large
 * answers. Its time is real time, the network's, not the virtual clock's.
 */
import type { Fault } from "@millrace/contract";
import { LRUCache } from "lru-cache";
import { createAgent } from "./agent.ts";
import { createRoom } from "./answer-body.ts";
import { type Resolve, systemResolve } from "./egress.ts";
import { createAfterTurn, type Engine, Exchange, stopped } from "./exchange.ts";
import { egressOf, type Target } from "./target.ts";
import type { Attempt, EgressPolicy } from "./types.ts";

export interface AttemptOptions {
  policy: EgressPolicy;
  /** The machine's name service unless given. */
  resolve?: Resolve;
  /** Trusted certificate authorities (PEM); those of the machine unless given. */
  ca?: readonly string[];
  /** Monotonic real milliseconds. */
  now?: () => number;
  /** Calls once after that much real time, for the deadlines; the result cancels. */
  after?: (ms: number, call: () => void) => () => void;
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
    after: options.after ?? afterRealTime,
    agent: createAgent({ ca: options.ca, now }),
    resolve: options.resolve ?? systemResolve((hostname) => egress.hosts.has(hostname), now),
    targets: new LRUCache<string, Target | Fault>({ max: 10_000 }),
    room: createRoom(),
    afterTurn: createAfterTurn(),
  };
  const running = new Set<Exchange>();
  const bySignal = new WeakMap<AbortSignal, Set<Exchange>>();
  let closed = false;

  /** One listener per signal, however many attempts hang on it. */
  const underSignal = (signal: AbortSignal): Set<Exchange> => {
    let set = bySignal.get(signal);
    if (set === undefined) {
      const fresh = new Set<Exchange>();
      signal.addEventListener("abort", () => [...fresh].forEach((one) => void one.stop()), { once: true });
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
        const group = signal === undefined ? running : underSignal(signal);
        const one = new Exchange(engine, request, (result) => {
          running.delete(one);
          group.delete(one);
          resolve(result);
        });
        running.add(one);
        group.add(one);
        one.start();
      }),
    get open() {
      return engine.agent.open;
    },
    close() {
      closed = true;
      for (const one of [...running]) one.stop();
      engine.agent.close();
    },
  };
}

function afterRealTime(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms);
  return () => clearTimeout(timer);
}
