/** The queue noun put together over one store: what doors call, what housekeeping runs. */
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { QueueRow } from "../store/types.ts";
import { createDirectory, type Directory, PRODUCTION } from "./directory.ts";
import { createGigadriveMessages, type GigadriveMessages } from "./gigadrive-messages.ts";
import { createMessages, type Messages } from "./messages.ts";
import { createQueues, type Queues } from "./queue.ts";
import { createRedrives, type Redrives } from "./redrives.ts";

export interface QueueRoom {
  directory: Directory;
  queues: Queues;
  messages: Messages;
  redrives: Redrives;
  /** For `createAccess`: the queues of an environment, `production` unless named. */
  findQueue: (projectNo: number, reference: string, environment?: string) => Promise<QueueRow | null>;
  gigadrive: GigadriveMessages;
  /** Called with the name of a chore that has something to do now. */
  onWork(listener: (chore: string) => void): void;
  close(): void;
}

/** Puts the noun together. `maxMessageBytes` is the server's bound on a message (Q5). */
export function createQueueRoom(deps: { store: Store; clock: Clock; maxMessageBytes?: number; safetyMs?: number }): QueueRoom {
  const { store, clock } = deps;
  let work: (chore: string) => void = () => undefined;
  const directory = createDirectory({ store, clock });
  const messages = createMessages({ ...deps, directory });
  return {
    directory,
    messages,
    queues: createQueues({ store, directory, onDelete: () => work("removals") }),
    redrives: createRedrives({ store, onStart: () => work("redrives") }),
    findQueue: (projectNo, reference, environment = PRODUCTION) => directory.find(projectNo, environment, reference),
    gigadrive: createGigadriveMessages({ store, clock, messages, maxMessageBytes: deps.maxMessageBytes }),
    onWork(listener) {
      work = listener;
    },
    close: () => messages.close(),
  };
}
