/** Calls of the topics' door: the account in its header, and lists page by page. */
import type { Runtime } from "../runtime.ts";
import type { Call, Transport } from "../transport.ts";
import { fromWire } from "./wire.ts";

/** One call. `create`: it makes something, and is sent under an `Idempotency-Key`. */
export type TopicCall = (
  method: Call["method"],
  path: string,
  given?: { query?: Call["query"]; body?: unknown; create?: boolean },
) => Promise<unknown>;

/** What calls need of a client. `project`: the account; `undefined` leaves it to the key. */
export interface TopicsContext {
  transport: Transport;
  project: string | undefined;
  runtime: Runtime;
}

/** How many items one page has. */
const pageSize = 100;

/** Makes the calls of one client. */
export const topicCall =
  ({ transport, project, runtime }: TopicsContext): TopicCall =>
  (method, path, { create, ...given } = {}) =>
    transport({
      method,
      path,
      ...given,
      ...(project === undefined ? {} : { headers: { "x-account-id": project } }),
      ...(create === true ? { idempotencyKey: runtime.uuid() } : {}),
      repeat: "always",
    });

/** The items of a list, at most `most`. */
export async function listAll<T>(call: TopicCall, path: string, field: string, most: number, query: Call["query"] = {}): Promise<T[]> {
  const items: T[] = [];
  let marker: string | undefined;
  do {
    const page = (await call("GET", path, { query: { ...query, limit: Math.min(pageSize, most - items.length), marker } })) as {
      meta?: { marker: string | null };
      [field: string]: unknown;
    };
    items.push(...fromWire<T[]>(page[field] ?? []));
    marker = page.meta?.marker ?? undefined;
  } while (marker !== undefined && items.length < most);
  return items;
}
