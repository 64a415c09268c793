import { describe, expect, it } from "vitest";
import { checkWhen, dueRun, nextRun } from "./rules.ts";

/** The occurrences after `from`, as ISO texts without seconds. */
function runs(cron: string, zone: string, from: string, count: number): string[] {
  const found: string[] = [];
  let at = Date.parse(from);
  for (let i = 0; i < count; i++) {
    const next = nextRun(cron, zone, at);
    if (next === null) break;
    expect(next).toBeGreaterThan(at);
    found.push(new Date(next).toISOString().slice(5, 16));
    at = next;
  }
  return found;
}

describe("when a schedule runs", () => {
  it("CRON-01, C9: a time of day that spring skips runs at the next instant that exists, on that day only", () => {
    expect(runs("30 2 * * *", "America/New_York", "2026-03-07T12:00Z", 2)).toEqual(["03-08T07:00", "03-09T06:30"]);
    expect(runs("30 1 * * *", "Europe/London", "2026-03-28T12:00Z", 2)).toEqual(["03-29T01:00", "03-30T00:30"]);
    expect(runs("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", 2)).toEqual(["10-03T15:30", "10-04T15:15"]);
  });

  it("CRON-01, C9: a time of day that autumn brings twice runs once, also for a schedule that is made between the two", () => {
    expect(runs("30 1 * * *", "America/New_York", "2026-10-31T12:00Z", 2)).toEqual(["11-01T05:30", "11-02T06:30"]);
    expect(runs("30 1 * * *", "Europe/London", "2026-10-24T12:00Z", 2)).toEqual(["10-25T00:30", "10-26T01:30"]);
    expect(runs("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", 2)).toEqual(["04-04T14:45", "04-05T15:15"]);
    expect(runs("30 1 * * *", "America/New_York", "2026-11-01T05:45Z", 1)).toEqual(["11-02T06:30"]);
    expect(runs("30 1 * * *", "Europe/London", "2026-10-25T01:10Z", 1)).toEqual(["10-26T01:30"]);
  });

  it("CRON-01, C9: several times of day are each skipped or doubled as one alone is", () => {
    const berlin = (cron: string, from: string, count: number) => runs(cron, "Europe/Berlin", from, count);
    expect(berlin("0 2,14 * * *", "2026-03-28T20:00Z", 3)).toEqual(["03-29T01:00", "03-29T12:00", "03-30T00:00"]);
    expect(berlin("0 2,14 * * *", "2026-10-24T20:00Z", 3)).toEqual(["10-25T00:00", "10-25T13:00", "10-26T01:00"]);
    expect(berlin("0,30 2 * * *", "2026-03-28T20:00Z", 2)).toEqual(["03-29T01:00", "03-30T00:00"]);
    expect(berlin("0,30 2 * * *", "2026-10-24T20:00Z", 3)).toEqual(["10-25T00:00", "10-25T00:30", "10-26T01:00"]);
    expect(berlin("15 1-3 * * *", "2026-03-28T20:00Z", 4)).toEqual(["03-29T00:15", "03-29T01:00", "03-29T01:15", "03-29T23:15"]);
    expect(berlin("15 1-3 * * *", "2026-10-24T20:00Z", 4)).toEqual(["10-24T23:15", "10-25T00:15", "10-25T02:15", "10-26T00:15"]);
    expect(berlin("*/20 2 * * *", "2026-10-25T01:05Z", 1)).toEqual(["10-26T01:00"]);
    expect(runs("0 0,12 * * *", "Africa/Cairo", "2026-04-23T12:00Z", 3)).toEqual(["04-23T22:00", "04-24T09:00", "04-24T21:00"]);
    expect(runs("0 0,12 * * *", "Pacific/Apia", "2011-12-29T23:00Z", 3)).toEqual(["12-30T10:00", "12-30T22:00", "12-31T10:00"]);
    expect(runs("0 7,19 * * *", "Asia/Kathmandu", "2026-01-01T00:00Z", 2)).toEqual(["01-01T01:15", "01-01T13:15"]);
  });

  it("CRON-01: every thirty minutes stays every thirty minutes over both changes, also where the change is half an hour", () => {
    for (const [zone, from] of [
      ["America/New_York", "2026-03-08T05:00Z"],
      ["America/New_York", "2026-11-01T04:00Z"],
      ["Europe/London", "2026-03-29T00:00Z"],
      ["Europe/London", "2026-10-24T23:00Z"],
      ["Australia/Lord_Howe", "2026-10-03T14:00Z"],
      ["Australia/Lord_Howe", "2026-04-04T13:00Z"],
    ] as const) {
      const start = Date.parse(from);
      const expected = Array.from({ length: 10 }, (_, i) => new Date(start + (i + 1) * 1_800_000).toISOString().slice(5, 16));
      expect(runs("*/30 * * * *", zone, from, 10), `${zone} ${from}`).toEqual(expected);
    }
  });

  it("CRON-01: February 29 waits for a leap year; a time that never comes is refused", () => {
    expect(nextRun("0 0 29 2 *", "UTC", Date.parse("2026-03-01T00:00Z"))).toBe(Date.parse("2028-02-29T00:00Z"));
    expect(() => checkWhen("0 0 30 2 *", "UTC")).toThrow(/cron: a time that comes/);
  });

  it("C9: five fields and macros are taken, everything else names the field", () => {
    for (const cron of ["* * * * *", "0 7 * * 1-5", "0 0 1 jan *", "0 0 * * SUN", "0 0 * * 7", "@hourly", "@Daily", "@yearly"])
      expect(() => checkWhen(cron, "Europe/Berlin"), cron).not.toThrow();
    for (const cron of [
      "",
      "* * * *",
      "* * * * * *",
      "60 * * * *",
      "0 0 L * *",
      "0 0 * * 5#2",
      "0 0 ? * *",
      "@never",
      "2026-01-01T00:00",
      "x * * * *",
    ])
      expect(() => checkWhen(cron, "UTC"), cron).toThrow(/^cron: /);
    for (const zone of ["Mars/Base", "", "+02:00"]) expect(() => checkWhen("@daily", zone), zone).toThrow(/^timezone: /);
    expect(nextRun("@hourly", "UTC", Date.parse("2026-01-01T00:30Z"))).toBe(Date.parse("2026-01-01T01:00Z"));
  });

  it("C9, CRON-01: after downtime only the latest missed occurrence is due, and the next one is never in the past", () => {
    const at = (text: string) => Date.parse(text);
    const due = (cron: string, pending: string, now: string) => {
      const { occurrenceAt, nextAt } = dueRun(cron, "UTC", at(pending), at(now));
      return [new Date(occurrenceAt).toISOString(), nextAt === null ? null : new Date(nextAt).toISOString()];
    };
    expect(due("0 * * * *", "2026-01-01T01:00Z", "2026-01-01T01:00Z")).toEqual(["2026-01-01T01:00:00.000Z", "2026-01-01T02:00:00.000Z"]);
    expect(due("0 * * * *", "2026-01-01T01:00Z", "2026-01-05T09:20Z")).toEqual(["2026-01-05T09:00:00.000Z", "2026-01-05T10:00:00.000Z"]);
    expect(due("* * * * *", "2020-01-01T01:00Z", "2026-01-05T09:20Z")).toEqual(["2026-01-05T09:20:00.000Z", "2026-01-05T09:21:00.000Z"]);
    expect(due("0 0 1 1 *", "2020-01-01T00:00Z", "2026-06-05T09:20Z")).toEqual(["2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"]);
    expect(due("0 0 1 * *", "2020-01-01T00:00Z", "2026-06-20T09:20Z")).toEqual(["2026-06-01T00:00:00.000Z", "2026-07-01T00:00:00.000Z"]);
    expect(due("* * * 1 *", "2020-01-01T00:00Z", "2026-06-20T09:20Z")).toEqual(["2026-01-31T23:59:00.000Z", "2027-01-01T00:00:00.000Z"]);
  });
});
