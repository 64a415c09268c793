/**
 * Signals that cost nothing until somebody wants one, and many that follow one: platforms warn of many listeners on one signal, and not all of
 * them can join signals by themselves.
 */

/** What can be heard of being over: an `AbortSignal`, or a `Halt`. */
export interface Halting {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options: { once: true }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** An `AbortController` and its signal in one. The platform's signal, which costs as much as a whole step, is made when asked for. */
export class Halt implements Halting {
  aborted = false;
  reason: unknown;
  #listeners: (() => void)[] = [];
  #controller: AbortController | undefined;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.aborted) this.#controller.abort(this.reason);
    return this.#controller.signal;
  }
  abort(reason?: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.#controller?.abort(reason);
    for (const listener of this.#listeners.splice(0)) listener();
  }
  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.push(listener);
  }
  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners = this.#listeners.filter((each) => each !== listener);
  }
}

/** Signals that are aborted together, each of which may be aborted alone. */
export interface Fan {
  /** One more, aborted already when all were. */
  fork(): AbortController;
  /** It is needed no more. */
  release(one: AbortController): void;
  abort(reason?: unknown): void;
}

/** Makes a fan; it follows `signal` when there is one. */
export function createFan(signal?: Halting): Fan {
  const open = new Set<AbortController>();
  let over: { reason: unknown } | undefined;
  const abort = (reason?: unknown): void => {
    over ??= { reason };
    for (const one of open) one.abort(reason);
    open.clear();
  };
  if (signal?.aborted) abort(signal.reason);
  else signal?.addEventListener("abort", () => abort(signal.reason), { once: true });
  return {
    fork() {
      const one = new AbortController();
      if (over === undefined) open.add(one);
      else one.abort(over.reason);
      return one;
    },
    release: (one) => void open.delete(one),
    abort,
  };
}
