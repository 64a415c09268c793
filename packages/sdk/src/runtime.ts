/** What this package takes from the outside: network, time, chance. A test hands in its own. */

/** Network, time and chance. */
export interface Runtime {
  fetch(url: string, init: RequestInit): Promise<Response>;
  /** Real milliseconds since 1970. */
  now(): number;
  /** Resolves after `ms`, or as soon as `signal` is aborted. Never rejects. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  /** In [0, 1). */
  random(): number;
  /** A fresh UUID. */
  uuid(): string;
}

function wait(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    // Beyond this a timer would fire at once.
    const timer = setTimeout(done, Math.min(ms, 2_147_483_647));
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** The platform's own. */
export const platform: Runtime = {
  // Looked up at each call: frameworks replace it after this module was loaded.
  fetch: (url, init) => globalThis.fetch(url, init),
  now: () => Date.now(),
  wait,
  random: () => Math.random(),
  uuid: () => crypto.randomUUID(),
};
