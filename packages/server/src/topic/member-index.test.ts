import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MemberRow } from "../store/fan-out.ts";
import { createMemberIndex } from "./member-index.ts";

const row = (subscriptionNo: number, since: number, until: number | null, given: Partial<MemberRow> = {}): MemberRow => ({
  subscriptionNo,
  subscriptionId: `s${subscriptionNo}`,
  protocol: "webhook",
  queueNo: subscriptionNo,
  targetNo: null,
  targetFifo: false,
  filter: null,
  scope: "attributes",
  since,
  until,
  ...given,
});
const published = (attributes: Record<string, string> = {}, message = "m") => ({
  message: new TextEncoder().encode(message),
  structure: null,
  attributes,
});
const numbers = (rows: Iterable<MemberRow | null>): number[] =>
  [...rows].flatMap((each) => (each === null ? [] : [each.subscriptionNo])).sort((a, b) => a - b);

describe("the members of a topic in memory", () => {
  it("T3, T10: a version sees its own members and filters, also after later ones changed them", () => {
    const index = createMemberIndex(5);
    index.add([row(1, 1, null), row(2, 3, null, { filter: '{"store":["berlin"]}' })]);
    index.advance(8, {
      came: [row(2, 6, null, { filter: '{"store":["paris"]}' }), row(3, 7, 8), row(4, 8, null)],
      went: [
        { subscriptionNo: 2, since: 3, until: 6 },
        { subscriptionNo: 1, since: 1, until: 8 },
      ],
    });
    const reached = (version: number, store: string) => numbers(index.walk(published({ store }), version));
    expect([reached(5, "berlin"), reached(5, "paris")]).toEqual([[1, 2], [1]]);
    expect([reached(7, "berlin"), reached(7, "paris")]).toEqual([
      [1, 3],
      [1, 2, 3],
    ]);
    expect([reached(8, "berlin"), reached(8, "paris")]).toEqual([[4], [2, 4]]);
    expect([5, 6, 7, 8].map((version) => index.countAt(version))).toEqual([2, 2, 3, 2]);
    expect([index.floor, index.version]).toEqual([5, 8]);
  });

  it("T3: each protocol's filter looks into the payload of its protocol", () => {
    const index = createMemberIndex(1);
    const filter = '{"kind":["w"]}';
    index.add([row(1, 1, null, { filter, scope: "message" }), row(2, 1, null, { filter, scope: "message", protocol: "queue" })]);
    const message = JSON.stringify({ default: '{"kind":"w"}', queue: '{"kind":"q"}' });
    const notification = { ...published({}, message), structure: "json" as const };
    expect(numbers(index.walk(notification, 1))).toEqual([1]);
  });

  it("T15: what ended is let go of when it is much, and the versions that needed it with it", () => {
    const index = createMemberIndex(1);
    const count = 4_000;
    index.add(Array.from({ length: count }, (_, at) => row(at, 1, null)));
    const went = (from: number, to: number, until: number) =>
      Array.from({ length: to - from }, (_, at) => ({ subscriptionNo: from + at, since: 1, until }));
    index.advance(2, { came: [], went: went(0, 1_000, 2) });
    expect([index.size, index.floor]).toEqual([count, 1]);
    index.advance(3, { came: [], went: went(1_000, 1_100, 3) });
    expect([index.size, index.floor, index.countAt(3)]).toEqual([count - 1_100, 3, count - 1_100]);
    expect(numbers(index.walk(published(), 3))).toHaveLength(count - 1_100);
  });

  it("T3, T15: however members come and go, every version in its range sees what a walk over all memberships would", () => {
    const change = fc.array(fc.tuple(fc.nat({ max: 5 }), fc.constantFrom("x", "y", null)), { maxLength: 20 });
    fc.assert(
      fc.property(change, fc.array(fc.nat({ max: 20 }), { maxLength: 4 }), (changes, stops) => {
        // each change takes a version: a subscription joins, changes its filter, or leaves
        const all: MemberRow[] = [];
        changes.forEach(([no, value], at) => {
          const version = at + 1;
          const open = all.find((each) => each.subscriptionNo === no && each.until === null);
          if (open !== undefined) open.until = version;
          if (value !== null || open === undefined)
            all.push(row(no, version, null, { filter: value === null ? null : `{"a":["${value}"]}` }));
        });
        const last = changes.length;
        const index = createMemberIndex(0);
        let at = 0;
        for (const to of [...stops.filter((stop) => stop <= last).sort((a, b) => a - b), last]) {
          const from = at;
          const known = all.map((each) => ({ ...each, until: each.until !== null && each.until <= to ? each.until : null }));
          const came = known.filter(({ since }) => since > from && since <= to);
          const went = known.flatMap(({ subscriptionNo, since, until }) =>
            until !== null && until > from && since <= from ? [{ subscriptionNo, since, until }] : [],
          );
          index.advance(to, { came, went });
          at = to;
        }
        for (let version = 0; version <= last; version += 1) {
          const expected = all.filter(
            ({ since, until, filter }) =>
              since <= version && (until === null || until > version) && (filter === null || filter.includes("x")),
          );
          expect(numbers(index.walk(published({ a: "x" }), version))).toEqual(numbers(expected));
        }
      }),
      { numRuns: 300 },
    );
  });
});
