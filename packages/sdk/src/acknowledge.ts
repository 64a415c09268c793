/**
 * Acknowledges in batches without waiting to fill one: while a request is under way, what is handled meanwhile gathers for the next.
 * Invariant: `add` never rejects; a message that could not be acknowledged is told to `onFailure`, and its job stays done.
 */
import { AcknowledgeError } from "./errors.ts";
import { type AckResult, acksPerRequest } from "./pull.ts";
import type { WireMessage } from "./records.ts";

/** Gathers acknowledgements. */
export interface Acknowledger {
  /** Resolves once the message's acknowledgement was answered or failed; `true` when it is acknowledged. */
  add(message: WireMessage): Promise<boolean>;
}

/** Makes an acknowledger over a call that takes at most 100 messages. */
export function createAcknowledger(
  ack: (messages: readonly WireMessage[]) => Promise<AckResult[]>,
  onFailure: (error: AcknowledgeError, message: WireMessage) => void,
): Acknowledger {
  let waiting: { message: WireMessage; resolve: (done: boolean) => void }[] = [];
  let running = false;

  const flush = async (): Promise<void> => {
    running = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, acksPerRequest);
      waiting = waiting.slice(acksPerRequest);
      let results: AckResult[] = [];
      let failure: unknown;
      try {
        results = await ack(batch.map(({ message }) => message));
      } catch (error) {
        failure = error;
      }
      for (const [index, { message, resolve }] of batch.entries()) {
        const result = results[index];
        if (result?.acknowledged !== true) onFailure(new AcknowledgeError(message.id, result?.code ?? "unreachable", failure), message);
        resolve(result?.acknowledged === true);
      }
    }
    running = false;
  };

  return {
    add: (message) =>
      new Promise((resolve) => {
        waiting.push({ message, resolve });
        // Deferred by a microtask, so that handlers that end together go together.
        if (!running) {
          running = true;
          queueMicrotask(flush);
        }
      }),
  };
}
