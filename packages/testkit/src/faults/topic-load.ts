/**
 * The load of the fault loops on topics: publishers, a webhook, a queue for everything and one with a filter. What was answered and what came
 * of it is observed from outside, and held against the one promise: each match of each answered publication has exactly one record (T3).
 */
import { type Receiver, receiver } from "../receiver.ts";
import { Refused } from "./api.ts";

const topic = "struck";
const queues = { all: "all-notifications", even: "even-notifications" } as const;

/** A publication that was answered. `even` ones pass the filter. */
export interface Published {
  id: string;
  even: boolean;
}

/** What a subscription has in the end: the message ids of its records with their states, and how often each reached its endpoint. */
export interface Reached {
  filtered: boolean;
  kind: "queue" | "webhook";
  records: readonly { messageId: string; state: string }[];
  arrivals: ReadonlyMap<string, number>;
}

/** A broken promise. */
export interface TopicViolation {
  rule: "lost" | "missing" | "twice" | "stray" | "undelivered";
  detail: string;
}

/** Holds what came of publications against what was answered; `unknown` are ids that no publication answered. Pure. */
export function checkTopics(published: readonly Published[], lost: readonly string[], reached: readonly Reached[]): TopicViolation[] {
  const violations: TopicViolation[] = lost.map((id) => ({ rule: "lost", detail: `${id} was answered and is not there or not complete` }));
  for (const [place, { filtered, kind, records, arrivals }] of reached.entries()) {
    const counts = new Map<string, number>();
    for (const { messageId } of records) counts.set(messageId, (counts.get(messageId) ?? 0) + 1);
    for (const [id, count] of counts) if (count > 1) violations.push({ rule: "twice", detail: `${id} has ${count} records at ${place}` });
    for (const { id, even } of published) {
      const matches = !filtered || even;
      const record = records.find(({ messageId }) => messageId === id);
      if (matches && record === undefined) violations.push({ rule: "missing", detail: `${id} has no record at ${place}` });
      if (!matches && record !== undefined) violations.push({ rule: "stray", detail: `${id} has a record at ${place}` });
      if (record === undefined) continue;
      const arrived = arrivals.get(id) ?? 0;
      // A webhook may be called again; a queue gets its message in the record's own transaction.
      if (record.state !== "delivered" || arrived === 0)
        violations.push({ rule: "undelivered", detail: `${id} is ${record.state} at ${place}` });
      if (kind === "queue" && arrived > 1) violations.push({ rule: "twice", detail: `${id} is ${arrived} times in the queue of ${place}` });
    }
  }
  return violations;
}

export interface TopicLoad {
  /** Publications that were answered. */
  readonly published: readonly Published[];
  /** Resolves once `count` more were answered. */
  advanced(count: number): Promise<void>;
  /** Nobody publishes between the two. */
  pause(): void;
  resume(): void;
  /** Ends publishing, waits until everything is delivered, and says what was broken. Waits at most `waitMs`. */
  finish(waitMs: number): Promise<TopicViolation[]>;
  stop(): Promise<void>;
}

/** Makes topic and subscriptions, and starts. */
export async function topicLoad(server: { url: string; readonly apiKey: string }): Promise<TopicLoad> {
  const published: Published[] = [];
  const arrived = new Map<string, number>();
  let n = 0;
  let over = false;
  let gate: Promise<void> = Promise.resolve();
  let open = (): void => {};
  let waits: { at: number; resolve: () => void }[] = [];
  const timers = new Set<NodeJS.Timeout>();
  const pauseFor = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        resolve();
      }, ms);
      timers.add(timer);
    });

  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${server.apiKey}`, "x-account-id": "default", "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(40_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Refused(answer.status, text);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  };
  const inProject = "/v1/organizations/default/projects/default";

  const endpoint: Receiver = await receiver({
    answer: (request) => {
      const { type, message_id: id } = request.json<{ type: string; message_id: string }>();
      if (type === "notification") arrived.set(id, (arrived.get(id) ?? 0) + 1);
      return {};
    },
  });
  await call("POST", "/v1/topics", { name: topic });
  const subscribe = async (body: Record<string, unknown>): Promise<string> =>
    (await call<{ subscription: { id: string } }>("POST", `/v1/topics/${topic}/subscriptions`, body)).subscription.id;
  for (const name of Object.values(queues)) await call("POST", `${inProject}/queues`, { name });
  const all = await subscribe({ protocol: "queue", endpoint: queues.all });
  const even = await subscribe({ protocol: "queue", endpoint: queues.even, filter_policy: { parity: ["even"] } });
  const retry = { min_delay_seconds: 1, max_delay_seconds: 1, timeout_seconds: 1 };
  const hook = await subscribe({ protocol: "webhook", endpoint: `${endpoint.url}/hook`, retry_policy: retry, max_in_flight: 20 });
  const handshake = await endpoint.next();
  await fetch(`${server.url}${new URL(handshake.json<{ confirm_url: string }>().confirm_url).search.replace(/^/, "/v1/confirm")}`);

  const publish = async (): Promise<void> => {
    while (!over) {
      await gate;
      if (over) return;
      n += 1;
      const parity = n % 2 === 0 ? "even" : "odd";
      try {
        const body = { message: String(n), attributes: { parity } };
        const { notification } = await call<{ notification: { message_id: string } }>("POST", `/v1/topics/${topic}/publish`, body);
        published.push({ id: notification.message_id, even: parity === "even" });
        const due = waits.filter(({ at }) => at <= published.length);
        waits = waits.filter(({ at }) => at > published.length);
        for (const { resolve } of due) resolve();
      } catch {
        // Nobody knows whether it was stored: only an answer is a promise.
        await pauseFor(20);
      }
    }
  };
  const publishers = [publish(), publish(), publish()];

  const records = async (subscriptionId: string): Promise<{ messageId: string; state: string }[]> => {
    const found: { messageId: string; state: string }[] = [];
    for (let marker: string | null = ""; marker !== null; ) {
      const query: string = marker === "" ? "limit=200" : `limit=200&marker=${encodeURIComponent(marker)}`;
      const page: { deliveries: { message_id: string; state: string }[]; meta: { marker: string | null } } = await call(
        "GET",
        `/v1/subscriptions/${subscriptionId}/deliveries?${query}`,
      );
      found.push(...page.deliveries.map(({ message_id: messageId, state }) => ({ messageId, state })));
      marker = page.meta.marker;
    }
    return found;
  };
  const drained = async (queue: string): Promise<Map<string, number>> => {
    const found = new Map<string, number>();
    for (;;) {
      const { messages } = await call<{ messages: { receipt: string; attributes: { message_id: string } }[] }>(
        "POST",
        `${inProject}/queues/${queue}/messages/receive`,
        { maxMessages: 10 },
      );
      if (messages.length === 0) return found;
      for (const { attributes } of messages) found.set(attributes.message_id, (found.get(attributes.message_id) ?? 0) + 1);
      await call("POST", `${inProject}/queues/${queue}/messages/ack`, { receipts: messages.map(({ receipt }) => receipt) });
    }
  };
  const stop = async (): Promise<void> => {
    over = true;
    open();
    await Promise.all(publishers);
    for (const timer of timers) clearTimeout(timer);
    await endpoint.close();
  };

  return {
    published,
    advanced: (count) => new Promise((resolve) => waits.push({ at: published.length + count, resolve })),
    pause() {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
    resume: () => open(),
    async finish(waitMs) {
      over = true;
      await Promise.all(publishers);
      const until = Date.now() + waitMs;
      let unfinished = published.map(({ id }) => id);
      for (;;) {
        const left: string[] = [];
        for (const id of unfinished) {
          const found = await call<{ notification: { state: string; pending: number } }>("GET", `/v1/notifications/${id}`).catch(
            () => null,
          );
          if (found === null || found.notification.state !== "complete" || found.notification.pending > 0) left.push(id);
        }
        unfinished = left;
        if (left.length === 0 || Date.now() > until) break;
        await pauseFor(200);
      }
      const reached: Reached[] = [
        { filtered: false, kind: "queue", records: await records(all), arrivals: await drained(queues.all) },
        { filtered: true, kind: "queue", records: await records(even), arrivals: await drained(queues.even) },
        { filtered: false, kind: "webhook", records: await records(hook), arrivals: arrived },
      ];
      const violations = checkTopics(published, unfinished, reached);
      await stop();
      return violations;
    },
    stop,
  };
}
