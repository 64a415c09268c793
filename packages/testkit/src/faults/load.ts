/**
 * The load of the fault loops: senders, pull consumers and a push endpoint, working on a server that is struck while they work. Everything
 * that was observed goes into one history. Outcomes that nobody answered are left open: only what was answered is a promise.
 */
import type { HistoryEvent } from "../history.ts";
import { type ReceivedRequest, type Receiver, receiver } from "../receiver.ts";
import { type Api, api } from "./api.ts";

/** Queue names of the load. `plain` dead-letters to `graveyard` after three attempts. */
export const queues = { plain: "plain", fifo: "ordered", pushed: "pushed", graveyard: "graveyard" } as const;
/** Those whose messages are consumed. */
const live = [queues.plain, queues.fifo, queues.pushed];
const groups = ["a", "b", "c"];
const subscription = "pushed";
export const maxConcurrency = 3;
/** Senders of a queue wait while it holds this many messages: the load is a flow, not a flood. */
const mostQueued = 50;

/** A running load. */
export interface Load {
  readonly history: HistoryEvent[];
  /** Requests that did something, and deliveries, answered so far. */
  readonly progress: number;
  /** Error answers by status. */
  readonly refused: ReadonlyMap<number, number>;
  /** What contradicts the product although the history checker has no rule for it. */
  readonly oddities: string[];
  /** Resolves once `count` more operations were answered. */
  advanced(count: number): Promise<void>;
  /** The server is about to be struck, or can be used again: nobody calls in between. */
  pause(): void;
  resume(): void;
  /**
   * Ends sending, lets consumers empty the queues, notes what is left and where. Rejects when the queues don't get empty. An open
   * delivery's lease outlasts its server by half a minute: only with `waitForPushes` is that waited for, else it counts as present.
   */
  finish(options: { waitForPushes: boolean }): Promise<void>;
  /** Stops everything at once. */
  stop(): Promise<void>;
}

interface PushBody {
  messages: { messageId: string; receiveCount: number }[];
}

/** Makes the queues and starts. `random` decides what is failed, what is acknowledged and how long answers take. */
export async function load(
  server: { url: string; readonly apiKey: string },
  random: () => number,
  options: { countsSurvive: boolean },
): Promise<Load> {
  const history: HistoryEvent[] = [];
  const refused = new Map<number, number>();
  const oddities: string[] = [];
  const counts = new Map<string, number>();
  const queued = new Map<string, number>();
  let progress = 0;
  let sent = 0;
  let batches = 0;
  let phase: "load" | "drain" | "over" = "load";
  let gate: Promise<void> = Promise.resolve();
  let open = (): void => {};
  let waits: { at: number; resolve: () => void }[] = [];
  const timers = new Set<NodeJS.Timeout>();
  const client: Api = api(server);

  const stepped = (): void => {
    progress += 1;
    const due = waits.filter(({ at }) => at <= progress);
    waits = waits.filter(({ at }) => at > progress);
    for (const { resolve } of due) resolve();
  };
  const pauseFor = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        resolve();
      }, ms);
      timers.add(timer);
    });
  /** One request; `undefined` when it was refused or its outcome is unknown. */
  const attempt = async <T>(call: () => Promise<T>): Promise<T | undefined> => {
    await gate;
    if (phase === "over") return undefined;
    try {
      const result = await call();
      // A receive that found nothing is no progress: strikes are to fall while work is done.
      if (!Array.isArray(result) || result.length > 0) stepped();
      return result;
    } catch (error) {
      const status = (error as { status?: number }).status;
      if (status !== undefined) refused.set(status, (refused.get(status) ?? 0) + 1);
      await pauseFor(20);
      return undefined;
    }
  };
  const handedOut = (id: string, count: number, batch: string, receipt?: string): void => {
    history.push({ kind: "handedOut", id, receipt, batch });
    if (options.countsSurvive && count <= (counts.get(id) ?? 0)) oddities.push(`${id} was received ${count} times after ${counts.get(id)}`);
    counts.set(id, count);
  };

  const holds = async (queue: string): Promise<number> => {
    const { ready, scheduled, waiting, inflight } = await client.stats(queue);
    return ready + scheduled + waiting + inflight;
  };
  /** Looks what the queues hold by their own account: what a strike loses, if it does, is the checker's to tell and holds up no sender. */
  async function look(): Promise<void> {
    while (phase === "load") {
      for (const queue of live) {
        await gate;
        const count = await holds(queue).catch(() => undefined);
        if (count !== undefined) queued.set(queue, count);
      }
      await pauseFor(20);
    }
  }

  async function send(queue: string, group?: string): Promise<void> {
    while (phase === "load") {
      if ((queued.get(queue) ?? 0) >= mostQueued) {
        await pauseFor(10);
        continue;
      }
      const size = 1 + Math.floor(random() * 4);
      const messages = Array.from({ length: size }, () => {
        sent += 1;
        const poison = queue === queues.plain && random() < 0.03;
        return { body: JSON.stringify({ n: sent, poison }), ...(group === undefined ? {} : { groupId: group }) };
      });
      const answered = await attempt(() => client.send(queue, messages));
      for (const { messageId, seq } of answered ?? []) {
        history.push({ kind: "sendAnswered", id: messageId, queue, group, seq });
      }
    }
  }

  async function consume(queue: string): Promise<void> {
    while (phase !== "over") {
      const messages = (await attempt(() => client.receive(queue))) ?? [];
      batches += 1;
      const batch = `pull-${batches}`;
      const done: { id: string; receipt: string }[] = [];
      for (const { messageId, receipt, receiveCount, body } of messages) {
        handedOut(messageId, receiveCount, batch, receipt);
        const poison = (JSON.parse(body ?? "{}") as { poison?: boolean }).poison === true;
        if (!poison && random() < 0.9) done.push({ id: messageId, receipt });
      }
      if (done.length === 0) continue;
      await gate;
      for (const { id, receipt } of done) history.push({ kind: "ackAsked", id, receipt });
      const results =
        (await attempt(() =>
          client.ack(
            queue,
            done.map(({ receipt }) => receipt),
          ),
        )) ?? [];
      results.forEach(({ ok }, index) => {
        const { id, receipt } = done[index] as { id: string; receipt: string };
        history.push({ kind: "ackAnswered", id, receipt, accepted: ok });
      });
    }
  }

  const endpoint: Receiver = await receiver({
    answer: async (request: ReceivedRequest) => {
      const { messages } = request.json<PushBody>();
      const batch = `push-${request.order}`;
      history.push({ kind: "deliveryStarted", subscription });
      for (const { messageId, receiveCount } of messages) handedOut(messageId, receiveCount, batch);
      let decided = false;
      let cut = false;
      const ids = messages.map(({ messageId }) => messageId);
      const luck = random();
      const failed = luck < 0.1 ? ids : luck < 0.2 ? ids.slice(0, 1) : [];
      const accepted = ids.filter((id) => !failed.includes(id));
      void request.done.then((whole) => {
        cut = !decided;
        if (cut) history.push({ kind: "deliveryEnded", subscription });
        if (!whole || cut) return;
        for (const id of accepted) history.push({ kind: "endpointAccepted", id });
      });
      await pauseFor(random() * 40);
      if (!cut) {
        decided = true;
        history.push({ kind: "deliveryEnded", subscription });
        for (const id of accepted) history.push({ kind: "ackAsked", id });
      }
      stepped();
      if (failed.length === ids.length) return { status: 500 };
      return { headers: { "content-type": "application/json" }, body: JSON.stringify({ failed }) };
    },
  });

  const graveyard = await client.createQueue({ name: queues.graveyard });
  await client.createQueue({
    name: queues.plain,
    visibilityTimeoutSeconds: 1,
    redrivePolicy: { deadLetterQueueId: graveyard.id, maxReceiveCount: 3 },
  });
  await client.createQueue({ name: queues.fifo, type: "fifo", visibilityTimeoutSeconds: 1 });
  const pushed = await client.createQueue({ name: queues.pushed, visibilityTimeoutSeconds: 1 });
  await client.call("POST", "/subscriptions", {
    queueId: pushed.id,
    maxConcurrency,
    target: { kind: "https", url: `${endpoint.url}/hook`, timeoutSeconds: 1 },
  });

  const senders = [send(queues.plain), send(queues.pushed), ...groups.map((group) => send(queues.fifo, group))];
  const looking = look();
  const consumers = [consume(queues.plain), consume(queues.plain), consume(queues.fifo), consume(queues.fifo)];

  const stop = async (): Promise<void> => {
    phase = "over";
    open();
    await Promise.all([...senders, looking, ...consumers]);
    for (const timer of timers) clearTimeout(timer);
    await endpoint.close();
  };
  return {
    history,
    get progress() {
      return progress;
    },
    refused,
    oddities,
    advanced: (count) => new Promise((resolve) => waits.push({ at: progress + count, resolve })),
    pause() {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
    resume: () => open(),
    async finish({ waitForPushes }) {
      phase = "drain";
      await Promise.all([...senders, looking]);
      const awaited = waitForPushes ? live : [queues.plain, queues.fifo];
      const until = Date.now() + 60_000;
      for (;;) {
        const left = await Promise.all(awaited.map(holds));
        if (left.every((count) => count === 0)) break;
        if (Date.now() > until) throw new Error(`messages are stuck: ${awaited.map((queue, i) => `${left[i]} of ${queue}`).join(", ")}`);
        await pauseFor(50);
      }
      for (const queue of live) for (const { messageId } of await client.peek(queue)) history.push({ kind: "present", id: messageId });
      for (const { messageId } of await client.peek(queues.graveyard)) history.push({ kind: "dead", id: messageId });
      await stop();
    },
    stop,
  };
}
