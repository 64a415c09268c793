/** The few calls of the public API that the fault loops make. Every call is one HTTP request and is never repeated. */

/** A message as a receive answers it. */
export interface Received {
  messageId: string;
  body?: string;
  receipt: string;
  receiveCount: number;
  groupId?: string;
}

/** An answer that is not 2xx. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(`${status}: ${text}`);
    this.status = status;
  }
}

export type Api = ReturnType<typeof api>;

/** Calls a server's first project. Rejects with `Refused` for an error answer, with anything else when no whole answer came. */
export function api(server: { url: string; apiKey: string }) {
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${server.url}/v1/organizations/default/projects/default${path}`, {
      method,
      headers: { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(40_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Refused(answer.status, text);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  };
  return {
    call,
    createQueue: (settings: Record<string, unknown>) => call<{ id: string }>("POST", "/queues", settings),
    send: async (queue: string, messages: Record<string, unknown>[]) =>
      (await call<{ messages: { messageId: string; seq?: string }[] }>("POST", `/queues/${queue}/messages`, { messages })).messages,
    receive: async (queue: string, waitSeconds = 1) =>
      (await call<{ messages: Received[] }>("POST", `/queues/${queue}/messages/receive`, { maxMessages: 10, waitSeconds })).messages,
    ack: async (queue: string, receipts: string[]) =>
      (await call<{ results: { receipt: string; ok: boolean; code?: string }[] }>("POST", `/queues/${queue}/messages/ack`, { receipts }))
        .results,
    stats: (queue: string) =>
      call<Record<"ready" | "scheduled" | "waiting" | "inflight" | "dead", number>>("GET", `/queues/${queue}/stats`),
    /** Every message of a queue, page by page. */
    async peek(queue: string): Promise<{ messageId: string; state: string }[]> {
      const all: { messageId: string; state: string }[] = [];
      let cursor: string | null = "";
      do {
        const query: string = cursor === "" ? "limit=200" : `limit=200&cursor=${encodeURIComponent(cursor)}`;
        const page: { messages: { messageId: string; state: string }[]; nextCursor: string | null } = await call(
          "GET",
          `/queues/${queue}/messages?${query}`,
        );
        all.push(...page.messages);
        cursor = page.nextCursor;
      } while (cursor !== null);
      return all;
    },
  };
}
