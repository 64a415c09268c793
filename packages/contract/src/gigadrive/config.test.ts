import { describe, expect, it } from "vitest";
import { readDeclaredQueues } from "./config.ts";

describe("a declared section of queues", () => {
  it("C10: every setting is read, durations as whole seconds, and what is not named stays out", () => {
    const { queues, problems } = readDeclaredQueues({
      emails: {
        consumer: "/api/queues/emails",
        maxAttempts: 5,
        visibilityTimeout: "2m",
        retention: "12h",
        deduplicationWindow: 600,
        concurrency: 7,
        rateLimit: { count: 5, period: "1m" },
        deadLetter: false,
        retryBackoff: { min: "10s", max: "1.1m" },
        schedules: { digest: { cron: "@daily", timezone: "Europe/Berlin", json: { a: 1 }, headers: { "x-a": "b" }, enabled: false } },
      },
      pull: { consumer: null, rateLimit: null, retryBackoff: null, deadLetterQueue: "last" },
      last: null,
    });
    expect(problems).toEqual([]);
    expect(queues.map(({ name }) => name)).toEqual(["last", "emails", "pull"]);
    expect(queues[1]).toEqual({
      name: "emails",
      type: undefined,
      deadLetterQueue: undefined,
      settings: {
        consumerPath: "/api/queues/emails",
        maxAttempts: 5,
        visibilityTimeoutSeconds: 120,
        retentionSeconds: 43_200,
        deduplicationWindowSeconds: 600,
        concurrency: 7,
        rateLimit: { count: 5, periodSeconds: 60 },
        deadLetter: false,
        retryBackoffMinSeconds: 10,
        retryBackoffMaxSeconds: 66,
      },
      schedules: [
        {
          name: "digest",
          cron: "@daily",
          timezone: "Europe/Berlin",
          body: '{"a":1}',
          contentType: "application/json",
          headers: { "x-a": "b" },
          enabled: false,
        },
      ],
    });
    expect(queues[2]).toMatchObject({
      settings: { consumerPath: null, rateLimit: null, retryBackoffMinSeconds: null, retryBackoffMaxSeconds: null },
      deadLetterQueue: "last",
      schedules: undefined,
    });
    expect(queues[0]?.settings).toEqual({});
  });

  it("C10, Q13: a queue comes behind the one that its dead letters go to, however long the chain; a circle is a fault", () => {
    const names = (section: object) => readDeclaredQueues(section).queues.map(({ name }) => name);
    expect(names({ a: { deadLetterQueue: "b" }, b: { deadLetterQueue: "c" }, c: { deadLetterQueue: "d" }, d: null })).toEqual([
      "d",
      "c",
      "b",
      "a",
    ]);
    const circle = (section: object) => readDeclaredQueues(section).problems.map(({ path, message }) => `${path.join(".")}: ${message}`);
    const comesBack = "a queue whose own dead letters don't come back here";
    expect(circle({ a: { deadLetterQueue: "a" } })).toEqual([`a.deadLetterQueue: ${comesBack}`]);
    expect(circle({ z: { deadLetterQueue: "a" }, a: { deadLetterQueue: "b" }, b: { deadLetterQueue: "a" } })).toEqual([
      `a.deadLetterQueue: ${comesBack}`,
    ]);
    expect(circle({ a: { deadLetterQueue: "b" }, b: { deadLetterQueue: null } })).toEqual([]);
    expect(circle({ "": {} })).toHaveLength(1);
  });

  it("C10: every fault is told with the path to it, a misspelled setting with what was meant", () => {
    const faults = (section: unknown) => readDeclaredQueues(section).problems.map(({ path, message }) => `${path.join(".")}: ${message}`);
    expect(faults([])).toEqual([": must be a map of queues by name"]);
    expect(
      faults({
        a: { visibilityTimeuot: "2m", retention: "1 week", delay: -1, visibilityTimeout: "13h" },
        "b c": {},
        d: { deadLetter: false, deadLetterQueue: "a", retryBackoff: { min: 5, max: 1 } },
        e: { schedules: { s: { corn: "@daily", cron: "@daily" }, t: {} } },
        f: 5,
        g: { maxAttempts: 101, consumer: "api" },
      }),
    ).toEqual([
      "a.visibilityTimeout: must be from 1 to 43200 seconds, got 46800",
      "a.retention: must be whole seconds or a duration such as 90s, 10m, 12h or 3d",
      "a.delay: must be whole seconds or a duration such as 90s, 10m, 12h or 3d",
      "a.visibilityTimeuot: no such setting; did you mean visibilityTimeout?",
      "b c: a queue's name: 1 to 128 of letters, digits, _ . : -",
      "d.deadLetterQueue: a dead-letter queue, or deadLetter: false, not both",
      "d.retryBackoff.min: must be at most max",
      "e.schedules.s.corn: no such setting; did you mean cron?",
      expect.stringMatching(/^e\.schedules\.t\.cron: /),
      expect.stringMatching(/^f: /),
      expect.stringMatching(/^g\.consumer: a path that begins with \//),
      expect.stringMatching(/^g\.maxAttempts: /),
    ]);
  });
});
