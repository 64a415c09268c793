/** Letting code run until it waits: everything that is settled by now has been reacted to when a turn is over. */

interface Platform {
  setImmediate?: (callback: () => void) => unknown;
  MessageChannel?: new () => {
    port1: { onmessage: (() => void) | null; close(): void };
    port2: { postMessage(message: null): void };
  };
}

function later(callback: () => void): void {
  const { setImmediate, MessageChannel } = globalThis as unknown as Platform;
  if (setImmediate !== undefined) setImmediate(callback);
  else if (MessageChannel === undefined) setTimeout(callback, 0);
  else {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      callback();
    };
    port2.postMessage(null);
  }
}

/** The turn that was asked for and has not come: one for all executions, for a process has many. */
let next: Promise<void> | undefined;

/** Resolves behind all microtasks there are, and behind those that they make. Takes microseconds. */
export function turn(): Promise<void> {
  next ??= new Promise((resolve) => {
    later(() => {
      next = undefined;
      resolve();
    });
  });
  return next;
}
