/** Letting code run until it waits: everything that is settled by now has been reacted to when a turn is over. */

interface Platform {
  setImmediate?: (callback: () => void) => unknown;
  MessageChannel?: new () => {
    port1: { onmessage: (() => void) | null; close(): void };
    port2: { postMessage(message: null): void };
  };
}

/** Resolves behind all microtasks there are, and behind those that they make. Takes microseconds. */
export function turn(): Promise<void> {
  const { setImmediate, MessageChannel } = globalThis as unknown as Platform;
  return new Promise((resolve) => {
    if (setImmediate !== undefined) setImmediate(resolve);
    else if (MessageChannel === undefined) setTimeout(resolve, 0);
    else {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(null);
    }
  });
}
