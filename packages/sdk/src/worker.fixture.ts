/** A queue served over real HTTP from a list, and time that moves when told: for tests of workers. */
import { type ReceivedRequest, type Receiver, type ReceiverAnswer, receiver } from "@millrace/testkit";
import { Millrace, type MillraceOptions } from "./index.ts";
import { json } from "./scripted.fixture.ts";

/** Time that moves when told. */
export interface Time {
  now(): number;
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  /** Moves on; what is due ends its wait. */
  advance(ms: number): void;
  /** Resolves once that many wait until that long from now. */
  waited(ms: number, count?: number): Promise<void>;
}

export function time(): Time {
  let now = 1_700_000_000_000;
  const waits = new Set<{ at: number; done: () => void }>();
  const hopes = new Set<() => void>();
  return {
    now: () => now,
    wait(ms, signal) {
      if (signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const one = {
          at: now + ms,
          done: () => {
            waits.delete(one);
            resolve();
          },
        };
        waits.add(one);
        signal?.addEventListener("abort", one.done, { once: true });
        for (const hope of hopes) hope();
      });
    },
    advance(ms) {
      now += ms;
      for (const one of waits) if (one.at <= now) one.done();
    },
    waited: (ms, count = 1) =>
      new Promise((resolve) => {
        const look = () => {
          if ([...waits].filter(({ at }) => at === now + ms).length < count) return;
          hopes.delete(look);
          resolve();
        };
        hopes.add(look);
        look();
      }),
  };
}

/** What a test says about one message. */
export interface Given {
  id: string;
  body?: string;
  groupKey?: string;
}

export interface WorkerQueue {
  server: Receiver;
  client: Millrace;
  time: Time;
  /** The bodies of all calls whose path ends so, in order. */
  calls<T = Record<string, unknown>>(ending: string): T[];
  /** Resolves once there was that many calls whose path ends so. */
  called(ending: string, count?: number): Promise<void>;
  /** Puts messages in line and answers a waiting receive. */
  put(...messages: Given[]): void;
  /** Answers in place of the queue, for paths that end so. */
  answer(ending: string, how: (request: ReceivedRequest) => ReceiverAnswer | undefined): void;
  close(): Promise<void>;
}

const leaseMs = 60_000;

export async function workerQueue(options: Partial<MillraceOptions> = {}): Promise<WorkerQueue> {
  const line: Given[] = [];
  const special = new Map<string, (request: ReceivedRequest) => ReceiverAnswer | undefined>();
  const hopes = new Set<() => void>();
  let wake: () => void = () => {};
  const record = ({ id, body = "1", groupKey }: Given) => ({
    id,
    body,
    encoding: "utf8",
    contentType: "application/json",
    headers: {},
    attempts: 1,
    groupKey: groupKey ?? null,
    deduplicationKey: null,
    deploymentId: null,
    createdAt: "2026-01-01T00:00:00.000Z",
    expiresAt: null,
    lastDeliveredAt: "2026-01-01T00:00:00.000Z",
    leaseExpiresAt: new Date(Date.UTC(2026, 0, 1) + leaseMs).toISOString(),
    receipt: `r-${id}`,
  });
  const answer = async (request: ReceivedRequest): Promise<ReceiverAnswer> => {
    for (const hope of hopes) hope();
    for (const [ending, how] of special) {
      const given = request.path.endsWith(ending) ? how(request) : undefined;
      if (given !== undefined) return given;
    }
    if (request.path.endsWith("/receive")) {
      const { maxMessages, waitSeconds } = request.json<{ maxMessages: number; waitSeconds: number }>();
      if (line.length === 0 && waitSeconds > 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          void request.done.then(() => resolve());
        });
      }
      return json({ messages: line.splice(0, maxMessages).map(record) });
    }
    if (request.path.endsWith("/messages/ack")) {
      const { messages } = request.json<{ messages: { messageId: string }[] }>();
      return json({ results: messages.map(({ messageId }) => ({ messageId, acknowledged: true })) });
    }
    return json({});
  };
  const server = await receiver({ answer });
  const clock = time();
  const runtime = { now: clock.now, wait: clock.wait, random: () => 1, ...options.runtime };
  const client = new Millrace({ url: server.url, apiKey: "k", project: "shop", maxRetries: 0, ...options, runtime });
  const matching = (ending: string) => server.requests.filter(({ path }) => path.endsWith(ending));
  return {
    server,
    client,
    time: clock,
    calls: <T>(ending: string) => matching(ending).map((request) => request.json<T>()),
    called: (ending, count = 1) =>
      new Promise((resolve) => {
        const look = () => {
          if (matching(ending).length < count) return;
          hopes.delete(look);
          resolve();
        };
        hopes.add(look);
        look();
      }),
    put(...messages) {
      line.push(...messages);
      wake();
    },
    answer: (ending, how) => special.set(ending, how),
    close: () => server.close(),
  };
}
