import { describe, expect, it } from "vitest";
import { checkHistory, type HistoryEvent } from "./index.ts";

const sent = (id: string, seq: number, group?: string): HistoryEvent => ({ kind: "sendAnswered", id, queue: "q", group, seq });
const out = (id: string, batch?: string): HistoryEvent => ({ kind: "handedOut", id, receipt: `${id}-r`, batch });
const asked = (id: string): HistoryEvent => ({ kind: "ackAsked", id });
const acked = (id: string, accepted = true): HistoryEvent => ({ kind: "ackAnswered", id, accepted });
const started: HistoryEvent = { kind: "deliveryStarted", subscription: "s" };
const ended: HistoryEvent = { kind: "deliveryEnded", subscription: "s" };
const rules = (events: HistoryEvent[], limits?: Record<string, number>): string[] =>
  checkHistory(events, { limits }).map(({ rule }) => rule);

describe("the history checker passes", () => {
  it("every way in which a message may end", () => {
    const ids = ["acked", "dead", "expired", "left", "pushed"];
    const events = ids.flatMap((id, index) => [sent(id, index), out(id)]);
    events.push(asked("acked"), acked("acked"), { kind: "dead", id: "dead" }, { kind: "expired", id: "expired" });
    events.push({ kind: "present", id: "left" }, { kind: "endpointAccepted", id: "pushed" });
    expect(rules(events)).toEqual([]);
  });

  it("a redelivery before the acknowledgement, and after one that was refused", () => {
    expect(rules([sent("a", 1), out("a"), out("a"), acked("a", false), out("a"), acked("a")])).toEqual([]);
  });

  it("a redelivery of what an endpoint accepted: the server may not have heard", () => {
    expect(rules([sent("a", 1), out("a"), { kind: "endpointAccepted", id: "a" }, out("a"), { kind: "endpointAccepted", id: "a" }])).toEqual(
      [],
    );
  });

  it("a group in order: one at a time, a batch at once, or past an acknowledgement whose answer was lost", () => {
    const events = ["a", "b", "c", "d"].map((id, index) => sent(id, index, "g"));
    events.push(out("a"), acked("a"), out("b", "one"), out("c", "one"), acked("b"), asked("c"), out("d"), acked("d"), {
      kind: "present",
      id: "c",
    });
    expect(rules(events)).toEqual([]);
  });

  it("a group's message that was acknowledged before its sender heard of the send", () => {
    const late = [out("a"), asked("a"), acked("a"), sent("a", 1, "g")];
    expect(rules([...late, sent("b", 2, "g"), out("b"), acked("b")])).toEqual([]);
    // One that was only handed out by then still stands before the others.
    expect(rules([out("a"), sent("a", 1, "g"), sent("b", 2, "g"), out("b"), acked("b"), acked("a")])).toEqual(["order"]);
  });

  it("a group whose head died, and another group's message in between", () => {
    const events = [sent("a", 1, "g"), sent("b", 2, "g"), sent("x", 3, "h"), out("x"), acked("x"), out("b"), acked("b")];
    expect(rules([...events, { kind: "dead", id: "a" }])).toEqual([]);
  });

  it("a message gone after an acknowledgement that was never answered", () => {
    expect(rules([sent("a", 1), out("a"), asked("a")])).toEqual([]);
  });

  it("as many deliveries as the limit allows", () => {
    expect(rules([started, started, ended, started, ended, ended], { s: 2 })).toEqual([]);
  });
});

describe("the history checker catches a planted", () => {
  it("loss: a send was answered and the message is nowhere", () => {
    expect(rules([sent("a", 1), sent("b", 2), out("a"), acked("a")])).toEqual(["lost"]);
  });

  it("loss after a hand-out whose acknowledgement was refused", () => {
    expect(rules([sent("a", 1), out("a"), asked("a"), acked("a", false)])).toEqual(["lost"]);
  });

  it("second accepted acknowledgement", () => {
    expect(rules([sent("a", 1), out("a"), out("a"), acked("a"), acked("a")])).toEqual(["acked twice"]);
  });

  it("hand-out after its answered acknowledgement", () => {
    expect(rules([sent("a", 1), out("a"), acked("a"), out("a")])).toEqual(["handed out after ack"]);
  });

  it("overtaking inside a group", () => {
    expect(rules([sent("a", 1, "g"), sent("b", 2, "g"), out("b"), acked("b"), out("a"), acked("a")])).toEqual(["order"]);
  });

  it("hand-out of a follower while its head is leased in another batch", () => {
    const events = [sent("a", 1, "g"), sent("b", 2, "g"), out("a", "one"), out("b", "two"), acked("a"), acked("b")];
    expect(rules(events)).toEqual(["order"]);
  });

  it("wrong order inside a batch", () => {
    expect(rules([sent("a", 1, "g"), sent("b", 2, "g"), out("b", "one"), out("a", "one"), acked("a"), acked("b")])).toEqual(["order"]);
  });

  it("delivery above the limit", () => {
    expect(rules([started, started, started, ended, ended, ended], { s: 2 })).toEqual(["in flight"]);
  });
});
