/** Many signals that follow one. Platforms warn of many listeners on one signal, and not all of them can join signals by themselves. */

/** Signals that are aborted together, each of which may be aborted alone. */
export interface Fan {
  /** One more, aborted already when all were. */
  fork(): AbortController;
  /** It is needed no more. */
  release(one: AbortController): void;
  abort(reason?: unknown): void;
}

/** Makes a fan; it follows `signal` when there is one. */
export function createFan(signal?: AbortSignal): Fan {
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
