/**
 * The memberships of one topic in memory, for a range of its versions: who is reached by a notification of a version in that range. A
 * change of members costs the change, however many there are, and an older notification whose fan-out goes on is answered from the same
 * index. Pure but for what it holds.
 */
import type { MemberEnd, MemberRow } from "../store/fan-out.ts";
import { documentOf, type FilterInput } from "./filter/document.ts";
import { createMatcher, type Place } from "./filter/matcher.ts";
import { payloadFor } from "./payload.ts";

/** What a notification says to filters. */
export type Published = Parameters<typeof payloadFor>[0] & Pick<FilterInput, "attributes">;

/** Knows every membership that is valid at a version from `floor` to `version`. */
export interface MemberIndex {
  readonly floor: number;
  readonly version: number;
  /** Memberships held, ended ones included. */
  readonly size: number;
  /** Adds memberships that are valid at `version`: for filling it. */
  add(rows: readonly MemberRow[]): void;
  /** Goes on to a later version. */
  advance(to: number, changes: { came: readonly MemberRow[]; went: readonly MemberEnd[] }): void;
  /** How many members there are at a version. */
  countAt(version: number): number;
  /** Yields whom a notification of a version reaches, and `null` for each that was evaluated in vain: the caller may rest in between. */
  walk(notification: Published, version: number): Generator<MemberRow | null>;
}

/** Ended memberships that are held for older notifications: so many at least, and up to a quarter of all. */
const ENDED = 1_000;

const keyOf = ({ subscriptionNo, since }: { subscriptionNo: number; since: number }): string => `${subscriptionNo} ${since}`;
const validAt = ({ since, until }: MemberRow, version: number): boolean => since <= version && (until === null || until > version);

/** Makes an index of a topic at a version, without members. */
export function createMemberIndex(at: number): MemberIndex {
  let floor = at;
  let version = at;
  let ended = 0;
  const places = new Map<string, Place<MemberRow>>();
  // each protocol has a payload of its own, which its filters look into
  const matchers = { webhook: createMatcher<MemberRow>(), queue: createMatcher<MemberRow>() };

  const add = (rows: readonly MemberRow[]): void => {
    for (const row of rows) {
      const policy = row.filter === null ? null : { text: row.filter, scope: row.scope };
      places.set(keyOf(row), matchers[row.protocol].add({ ...row }, policy));
      if (row.until !== null) ended += 1;
    }
  };
  /** Lets go of those that ended before this version, with the versions that needed them. */
  const forget = (): void => {
    for (const [key, place] of places) {
      const { until, protocol } = place.member;
      if (until === null || until > version) continue;
      matchers[protocol].remove(place);
      places.delete(key);
      ended -= 1;
    }
    floor = version;
  };

  return {
    get floor() {
      return floor;
    },
    get version() {
      return version;
    },
    get size() {
      return places.size;
    },
    add,
    advance(to, { came, went }) {
      for (const end of went) {
        const member = places.get(keyOf(end))?.member;
        if (member === undefined) continue;
        if (member.until === null) ended += 1;
        member.until = end.until;
      }
      add(came);
      version = to;
      if (ended > ENDED && ended > places.size / 4) forget();
    },
    countAt(asked) {
      let count = 0;
      for (const { member } of places.values()) if (validAt(member, asked)) count += 1;
      return count;
    },
    *walk(notification, asked) {
      const { attributes } = notification;
      for (const protocol of ["webhook", "queue"] as const) {
        const matcher = matchers[protocol];
        if (matcher.size === 0) continue;
        const document = documentOf({ attributes, message: payloadFor(notification, protocol) });
        for (const member of matcher.walk(document)) yield member !== null && validAt(member, asked) ? member : null;
      }
    },
  };
}
