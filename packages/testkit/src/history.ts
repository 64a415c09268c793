/**
 * Checks what clients saw of a server, crashes included, against the promises of the product. The history is what was observable from
 * outside, in the order it was observed; the checker is a pure function of it and knows nothing of how the server works.
 * A group is to have one sender at a time and a message's `ackAsked` stands before its acknowledgement went out: only then does the
 * order of events say something about order.
 */

/** One observation. `batch` is any text that the messages of one receive or one delivery share. */
export type HistoryEvent =
  | { kind: "sendAnswered"; id: string; queue: string; group?: string; seq?: number | string }
  | { kind: "handedOut"; id: string; receipt?: string; batch?: string; at?: number }
  /** Stands before the request goes out. One that no `ackAnswered` follows may have done its work all the same. */
  | { kind: "ackAsked"; id: string; receipt?: string }
  | { kind: "ackAnswered"; id: string; receipt?: string; accepted: boolean }
  /** An endpoint answered 2xx for it; the server may still not have heard. */
  | { kind: "endpointAccepted"; id: string }
  | { kind: "expired" | "dead" | "present"; id: string }
  | { kind: "deliveryStarted" | "deliveryEnded"; subscription: string };

/** Which promise was broken, by what. */
export interface Violation {
  rule: "lost" | "acked twice" | "handed out after ack" | "order" | "in flight";
  id: string;
  /** Index in the history at which it showed; its length for what showed at the end. */
  index: number;
  message: string;
}

interface Known {
  queue: string;
  group: string | undefined;
  seq: number;
  /** Acknowledged for good, as far as anyone may tell. */
  passed: boolean;
}

/**
 * Every promise that `events` breaks, in order. `limits` bounds the deliveries in flight of a subscription. The events `dead`,
 * `expired` and `present` say where a message was at the end, wherever they stand.
 */
export function checkHistory(events: readonly HistoryEvent[], options: { limits?: Record<string, number> } = {}): Violation[] {
  const violations: Violation[] = [];
  const known = new Map<string, Known>();
  const groups = new Map<string, Set<string>>();
  const accepted = new Set<string>();
  const settled = new Set<string>();
  /** Perhaps done: an acknowledgement was under way, or answered. */
  const done = new Set<string>();
  const buried = new Set<string>();
  const last = new Map<string, string | undefined>();
  const inFlight = new Map<string, number>();
  /** Acknowledgements under way, by message and receipt. */
  const open = new Map<string, string>();
  for (const event of events) {
    if (event.kind === "dead" || event.kind === "expired") buried.add(event.id);
    if (event.kind === "dead" || event.kind === "expired" || event.kind === "present") settled.add(event.id);
    if (event.kind === "endpointAccepted") settled.add(event.id);
  }

  events.forEach((event, index) => {
    switch (event.kind) {
      case "sendAnswered": {
        if (known.has(event.id)) break;
        // With several nodes a message may have been received and acknowledged before its sender hears the answer.
        const passed = done.has(event.id) || accepted.has(event.id);
        known.set(event.id, { queue: event.queue, group: event.group, seq: Number(event.seq ?? index), passed });
        if (event.group === undefined || passed) break;
        const name = `${event.queue}\n${event.group}`;
        const members = groups.get(name) ?? new Set<string>();
        members.add(event.id);
        groups.set(name, members);
        break;
      }
      case "handedOut": {
        const message = known.get(event.id);
        if (accepted.has(event.id)) {
          violations.push({
            rule: "handed out after ack",
            id: event.id,
            index,
            message: `${event.id} was handed out after its acknowledgement had been answered`,
          });
        }
        if (message?.group !== undefined) {
          const members = groups.get(`${message.queue}\n${message.group}`) ?? new Set<string>();
          for (const id of members) {
            const other = known.get(id);
            if (other === undefined || other.seq >= message.seq || other.passed || buried.has(id)) continue;
            if (event.batch !== undefined && last.get(id) === event.batch) continue;
            violations.push({
              rule: "order",
              id: event.id,
              index,
              message: `${event.id} of group ${message.group} was handed out while the earlier ${id} was not done`,
            });
            break;
          }
        }
        last.set(event.id, event.batch);
        break;
      }
      case "ackAsked":
      case "endpointAccepted": {
        if (event.kind === "ackAsked") open.set(`${event.id} ${event.receipt}`, event.id);
        done.add(event.id);
        const message = known.get(event.id);
        if (message) pass(message, event.id, groups);
        break;
      }
      case "ackAnswered": {
        open.delete(`${event.id} ${event.receipt}`);
        if (!event.accepted) break;
        const message = known.get(event.id);
        if (message) pass(message, event.id, groups);
        if (accepted.has(event.id)) {
          violations.push({ rule: "acked twice", id: event.id, index, message: `a second acknowledgement of ${event.id} was accepted` });
        }
        accepted.add(event.id);
        break;
      }
      case "deliveryStarted": {
        const count = (inFlight.get(event.subscription) ?? 0) + 1;
        inFlight.set(event.subscription, count);
        const limit = options.limits?.[event.subscription];
        if (limit !== undefined && count > limit) {
          violations.push({ rule: "in flight", id: event.subscription, index, message: `${count} deliveries in flight, ${limit} allowed` });
        }
        break;
      }
      case "deliveryEnded":
        inFlight.set(event.subscription, (inFlight.get(event.subscription) ?? 0) - 1);
        break;
      default:
        break;
    }
  });
  for (const id of open.values()) settled.add(id);
  for (const id of known.keys()) {
    if (accepted.has(id) || settled.has(id)) continue;
    violations.push({ rule: "lost", id, index: events.length, message: `the send of ${id} was answered, and it is nowhere` });
  }
  return violations;
}

/** Done messages leave their group's set, so that a long history stays cheap to check. */
function pass(message: Known, id: string, groups: Map<string, Set<string>>): void {
  message.passed = true;
  if (message.group !== undefined) groups.get(`${message.queue}\n${message.group}`)?.delete(id);
}
