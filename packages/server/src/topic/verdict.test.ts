import { describe, expect, it } from "vitest";
import type { TopicSubscriptionRow } from "../store/topic-rows.ts";
import { explanationOf, type Facts, outcomeOf } from "./verdict.ts";

const subscription: TopicSubscriptionRow = {
  no: 1,
  id: "s1",
  topicNo: 1,
  projectNo: 1,
  protocol: "webhook",
  endpoint: "https://hooks.example.com/",
  targetNo: null,
  queueNo: 2,
  state: "confirmed",
  settings: {
    rawMessageDelivery: false,
    filterPolicy: null,
    filterPolicyScope: "attributes",
    retryPolicy: null,
    deadLetterNo: null,
    maxInFlight: 10,
    rateLimit: null,
  },
  confirmableUntil: null,
  confirmedAt: 1_000,
  failing: false,
  lastError: null,
  lastSuccessAt: null,
  createdAt: 500,
  updatedAt: 500,
};
const facts = (given: Partial<Facts>, changed: Partial<TopicSubscriptionRow> = {}): Facts => ({
  subscription: { ...subscription, ...changed },
  endedAt: null,
  member: { filter: null, scope: "attributes" },
  delivery: null,
  acceptedAt: 2_000,
  walked: true,
  filter: null,
  filterAsOf: "publication",
  changedSince: false,
  queue: null,
  ...given,
});
const told = (given: Partial<Facts>, changed: Partial<TopicSubscriptionRow> = {}) => {
  const all = facts(given, changed);
  return [outcomeOf(all), explanationOf(all)];
};

describe("verdicts on subscriptions without a record", () => {
  it("T16: confirmed only after the publication is told apart from never, and from made afterwards", () => {
    const at = "1970-01-01T00:00:03.000Z";
    expect(told({ member: null }, { confirmedAt: 3_000 })).toEqual([
      "not_confirmed",
      `The subscription was confirmed at ${at}, after this was published.`,
    ]);
    expect(told({ member: null }, { confirmedAt: 3_000, createdAt: 3_000 })).toEqual([
      "subscribed_later",
      `The subscription was made at ${at}, after this was published.`,
    ]);
    const never = told({ member: null, endedAt: 4_000 }, { confirmedAt: null, state: "pending" });
    expect(never).toEqual(["not_confirmed", expect.stringContaining("was never confirmed")]);
  });

  it("T4, T16: what the fan-out has not come to is undecided, whatever its filter says", () => {
    const filter = { matched: false, failures: [] };
    expect(told({ walked: false, filter })).toEqual(["undecided", "The fan-out has not come to this subscription yet."]);
  });

  it("T12, T16: a match without a record is one whose record was removed", () => {
    expect(told({})).toEqual(["forgotten", expect.stringContaining("records are kept for 14 days")]);
    expect(outcomeOf(facts({ filter: { matched: true, failures: [] } }))).toBe("forgotten");
  });

  it("T10, T16: a forgotten filter is known to have kept it back, even if the present one would not", () => {
    const now = { filterAsOf: "now", changedSince: true, member: null } as const;
    const failures = [{ key: "store", reason: "absent" as const, expected: ["a", "b"], got: null }];
    expect(told({ ...now, filter: { matched: false, failures } })).toEqual([
      "filtered_out",
      'Filtered out by a filter that was changed since; as it is now, store is missing where the filter wants one of ["a","b"].',
    ]);
    expect(told({ ...now, filter: null })).toEqual([
      "filtered_out",
      "Filtered out by a filter that was changed since; it would pass as it is now.",
    ]);
  });

  it("T16: a message that no filter on the message can read is told as such", () => {
    const failures = [{ key: "", reason: "not_an_object" as const, expected: [], got: null }];
    expect(told({ filter: { matched: false, failures } })[1]).toBe(
      "Filtered out: the message is no JSON object, which a filter on the message needs.",
    );
  });
});
