/**
 * What can be done with queues: make, list, change, delete. Every committed change goes through `directory.changed`, so that the next
 * look-up in this process sees it.
 */
import { randomInt } from "node:crypto";
import type { Answer, Operations } from "@millrace/contract";
import { uuidv7 } from "uuidv7";
import type { MadeQueue, NewQueue } from "../store/queue.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey, QueueRow, QueueSettings } from "../store/types.ts";
import { type Directory, PRODUCTION } from "./directory.ts";
import { type GigadriveQueue, gigadriveQueue } from "./gigadrive-settings.ts";
import { wireStats } from "./peek.ts";
import { changeOf, ezghDefaults, type GivenSettings, type WireQueue, wireQueue } from "./settings.ts";

export interface Queues {
  /** The names of the databases that a queue can be placed on, the default one first. */
  readonly databases: readonly string[];
  /** Makes a queue in the project's `production` environment; `deadLetter` is what its redrive policy names. */
  create(
    projectNo: number,
    given: GivenSettings & { name: string; type?: "standard" | "fifo" | undefined; database?: string | undefined },
    deadLetter: QueueRow | null,
    key: IdempotencyKey | null,
  ): Promise<WireQueue>;
  /** The first answer to a `create` under this key; `null` when there was none. */
  created(key: IdempotencyKey): Promise<WireQueue | null>;
  /** Makes a queue of these very settings: for doors that name them otherwise. */
  make(
    given: Pick<QueueRow, "projectNo" | "environment" | "name" | "type" | "settings" | "source"> &
      Pick<NewQueue, "database" | "deadLetterId">,
    key: IdempotencyKey | null,
  ): Promise<MadeQueue>;
  /** All queues of an environment by name that `shows` lets through: at most the first 10,000 are looked at. */
  all(projectNo: number, environment: string, shows: (queue: QueueRow) => boolean): Promise<QueueRow[]>;
  show(queue: QueueRow): Promise<WireQueue>;
  /** With its depth and counters, as the Gigadrive door shows it. */
  showGigadrive(queue: QueueRow): Promise<GigadriveQueue>;
  /**
   * Up to `limit` queues by name after `after`, of those that `shows` lets through, and the name to go on after: a page may be short,
   * only `next: null` ends the list.
   */
  list(
    projectNo: number,
    after: string | null,
    limit: number,
    shows: (queue: QueueRow) => boolean,
  ): Promise<{ queues: WireQueue[]; next: string | null }>;
  update(queue: QueueRow, given: GivenSettings, deadLetter: QueueRow | null): Promise<WireQueue>;
  /** Changes stored settings directly: for doors that name them otherwise. */
  change(queue: QueueRow, change: Partial<QueueSettings>): Promise<QueueRow>;
  /** Deletes the queue; its messages can't be reached any more and are removed bit by bit afterwards. */
  delete(queue: QueueRow): Promise<void>;
  stats(queue: QueueRow): Promise<Answer<Operations["GetQueueStats"]>>;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
/** How many queues one page reads at once, and how many it may walk over to find those in the key's reach. */
const STRIDE = 200;
const WALK = 2_000;
const MOST = 10_000;

/** A fresh resource name: `que_` and 12 characters (Q1). `random(n)` is a whole number below n. */
export function resourceName(random: (below: number) => number): string {
  let name = "que_";
  for (let i = 0; i < 12; i++) name += LETTERS[random(LETTERS.length)];
  return name;
}

/** Makes the queue verbs of one store. `random(n)` is a whole number below n. */
export function createQueues(deps: {
  store: Store;
  directory: Directory;
  newId?: () => string;
  random?: (below: number) => number;
  /** Called after a deletion, so that housekeeping starts to remove what is left. */
  onDelete?: () => void;
}): Queues {
  const { store, directory } = deps;
  const newId = deps.newId ?? uuidv7;
  const random = deps.random ?? randomInt;

  const show = async (queue: QueueRow): Promise<WireQueue> => {
    const { deadLetter, deadLetterNo } = queue.settings;
    const target = deadLetter === "queue" && deadLetterNo !== null ? await directory.byNo(deadLetterNo) : null;
    return wireQueue(queue, target?.id ?? null);
  };
  const make: Queues["make"] = async (given, key) => {
    const named = { id: newId(), resourceName: resourceName(random), ...given };
    return (await store.once(key, "createQueue", named)).result;
  };
  /** As the first answer was, even if the dead-letter queue is gone by now. */
  const showMade = (queue: MadeQueue): WireQueue => wireQueue(queue, queue.deadLetterId ?? null);
  const change = async (queue: QueueRow, settings: Partial<QueueSettings>): Promise<QueueRow> => {
    try {
      return await store.run("updateQueue", queue.no, settings);
    } finally {
      directory.changed(queue.no);
    }
  };

  return {
    databases: store.databases.map(({ name }) => name),
    async create(projectNo, given, deadLetter, key) {
      const settings = { ...ezghDefaults, ...changeOf(given, deadLetter?.no ?? null) };
      const type = given.type ?? "standard";
      const { name, database } = given;
      const named = { projectNo, environment: PRODUCTION, name, type, database, settings, source: "api" as const };
      return showMade(await make({ ...named, deadLetterId: deadLetter?.id }, key));
    },
    async created(key) {
      const queue = await store.run("madeQueue", key);
      return queue === null ? null : showMade(queue);
    },
    make,
    async all(projectNo, environment, shows) {
      const queues: QueueRow[] = [];
      let after: string | null = null;
      for (let walked = 0; walked < MOST; walked += STRIDE) {
        const rows: QueueRow[] = await store.run("listQueues", projectNo, environment, after, STRIDE);
        queues.push(...rows.filter(shows));
        after = rows.at(-1)?.name ?? null;
        if (rows.length < STRIDE) break;
      }
      return queues;
    },
    show,
    showGigadrive: async (queue) => gigadriveQueue(queue, await store.run("stats", queue.no)),
    async list(projectNo, after, limit, shows) {
      const queues: QueueRow[] = [];
      let next = after;
      for (let walked = 0; walked < WALK; ) {
        const rows = await store.run("listQueues", projectNo, PRODUCTION, next, STRIDE);
        for (const queue of rows) {
          walked++;
          next = queue.name;
          if (shows(queue) && queues.push(queue) === limit) return { queues: await Promise.all(queues.map(show)), next };
        }
        if (rows.length < STRIDE) {
          next = null;
          break;
        }
      }
      return { queues: await Promise.all(queues.map(show)), next };
    },
    update: async (queue, given, deadLetter) => show(await change(queue, changeOf(given, deadLetter?.no ?? null))),
    change,
    async delete(queue) {
      try {
        await store.run("deleteQueue", queue.no);
      } finally {
        directory.changed(queue.no);
      }
      deps.onDelete?.();
    },
    stats: async (queue) => wireStats(await store.run("stats", queue.no)),
  };
}
