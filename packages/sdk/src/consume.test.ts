import { afterEach, describe, expect, it, vi } from "vitest";
import { AcknowledgeError, type ConsumeErrorContext, LeaseLostError, NonRetryableError, RetryLaterError } from "./index.ts";
import { json, problem } from "./scripted.fixture.ts";
import { type Given, type WorkerQueue, workerQueue } from "./worker.fixture.ts";

const opened: WorkerQueue[] = [];
const open = async (...given: Parameters<typeof workerQueue>): Promise<WorkerQueue> => {
  const one = await workerQueue(...given);
  opened.push(one);
  return one;
};
afterEach(async () => {
  vi.restoreAllMocks();
  for (const one of opened.splice(0)) await one.close();
});

const some = (count: number, more: Partial<Given> = {}): Given[] =>
  Array.from({ length: count }, (_, n) => ({ id: `m${n}`, body: String(n), ...more }));
function event(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
/** Collects what a worker reports. */
function reports() {
  const errors: [unknown, ConsumeErrorContext["during"], string | undefined][] = [];
  const onError = (error: unknown, { during, message }: ConsumeErrorContext) => void errors.push([error, during, message?.messageId]);
  return { errors, onError };
}

/** A handler that works until it hears that its lease is lost. */
const untilLost = (_: unknown, { signal }: { signal: AbortSignal }): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve());
  });
/** Has so many heartbeats come to their time, one after the other. */
async function beat(queue: WorkerQueue, times: number, before = (): void => {}): Promise<void> {
  for (let nth = 1; nth <= times; nth += 1) {
    before();
    await queue.time.waited(20_000);
    queue.time.advance(20_000);
    await queue.called("/extend", nth);
  }
}

describe("a worker", () => {
  it("C13: handles everything, at most `concurrency` at once, acknowledges in batches and stops when the queue is empty", async () => {
    const queue = await open();
    queue.put(...some(250));
    let now = 0;
    let most = 0;
    const seen: unknown[] = [];
    const work = async (payload: unknown) => {
      now += 1;
      most = Math.max(most, now);
      await Promise.resolve();
      seen.push(payload);
      now -= 1;
    };
    const summary = await queue.client.queue("emails").consume(work, { concurrency: 50, maxMessages: 50, stopWhenEmpty: true });
    expect(summary).toEqual({ handled: 250, failed: 0 });
    expect(seen).toHaveLength(250);
    expect(most).toBeLessThanOrEqual(50);
    const acks = queue.calls<{ messages: { receipt: string }[] }>("/messages/ack");
    expect(new Set(acks.flatMap(({ messages }) => messages.map(({ receipt }) => receipt))).size).toBe(250);
    expect(acks.length).toBeLessThan(50);
    for (const { maxMessages } of queue.calls("/receive")) expect(maxMessages).toBeLessThanOrEqual(50);
  });

  it("C13: asks for no more than it can handle", async () => {
    const queue = await open();
    const done = event();
    const stop = new AbortController();
    const begun = event();
    queue.put({ id: "slow" });
    const working = queue.client.queue("emails").consume(
      async (_, { messageId }) => {
        begun.resolve();
        if (messageId === "slow") await done.promise;
      },
      { concurrency: 3, signal: stop.signal },
    );
    await begun.promise;
    await queue.called("/receive", 2);
    expect(queue.calls("/receive").map(({ maxMessages, waitSeconds }) => [maxMessages, waitSeconds])).toEqual([
      [3, 20],
      [2, 20],
    ]);
    done.resolve();
    stop.abort();
    await working;
  });

  it("C13: what a handler throws decides as with push", async () => {
    const queue = await open();
    queue.put({ id: "later" }, { id: "never" }, { id: "fails" }, { id: "broken", body: "{" }, { id: "good" });
    const { errors, onError } = reports();
    const work = (_: unknown, { messageId }: { messageId: string }) => {
      if (messageId === "later") throw new RetryLaterError("1m");
      if (messageId === "never") throw new NonRetryableError("Unknown template");
      if (messageId === "fails") throw new Error("smtp is down");
    };
    expect(await queue.client.queue("emails").consume(work, { stopWhenEmpty: true, onError })).toEqual({ handled: 1, failed: 4 });
    const nacks = queue.calls<{ receipt: string }>("/nack").sort((a, b) => a.receipt.localeCompare(b.receipt));
    expect(nacks).toEqual([
      { receipt: "r-broken", deadLetter: true, error: expect.stringContaining("the body cannot be read as application/json") },
      { receipt: "r-fails", error: "smtp is down" },
      { receipt: "r-later", delaySeconds: 60, countAttempt: false },
      { receipt: "r-never", deadLetter: true, error: "Unknown template" },
    ]);
    expect(queue.calls("/messages/ack")).toEqual([{ messages: [{ messageId: "good", receipt: "r-good" }] }]);
    expect(errors.map(([, during, id]) => [during, id]).sort()).toEqual([
      ["handle", "broken"],
      ["handle", "fails"],
      ["handle", "never"],
    ]);
  });

  it("C13, Q9: messages of a group run in order; one that fails gives back those behind it, unspent; one that is dead lets them pass", async () => {
    const queue = await open();
    const of = (groupKey: string) => (id: string) => ({ id, groupKey });
    queue.put(...["a1", "a2", "a3"].map(of("a")), ...["b1", "b2"].map(of("b")), ...["c1", "c2"].map(of("c")));
    const order: string[] = [];
    const work = async (_: unknown, { messageId }: { messageId: string }) => {
      order.push(messageId);
      await Promise.resolve();
      if (messageId === "a2") throw new Error("down");
      if (messageId === "b1") throw new NonRetryableError("no");
      if (messageId === "c1") throw new RetryLaterError(5);
    };
    const summary = await queue.client.queue("emails").consume(work, { stopWhenEmpty: true, onError: () => {} });
    expect(order.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2"]);
    expect(order.filter((id) => id.startsWith("b"))).toEqual(["b1", "b2"]);
    expect(order.filter((id) => id.startsWith("c"))).toEqual(["c1"]);
    expect(summary).toEqual({ handled: 2, failed: 3 });
    const nacks = queue.calls("/nack");
    expect(nacks).toContainEqual({ receipt: "r-a3", delaySeconds: 0, countAttempt: false });
    expect(nacks).toContainEqual({ receipt: "r-c2", delaySeconds: 0, countAttempt: false });
    const at = (receipt: string) => nacks.findIndex((nack) => nack.receipt === receipt);
    expect(at("r-a2")).toBeLessThan(at("r-a3"));
  });
});

describe("leases", () => {
  it("C13: the lease of a slow handler is extended at each third of it, also while it waits its turn, and no longer than needed", async () => {
    const queue = await open();
    const done = event();
    queue.put({ id: "m1", groupKey: "g" }, { id: "m2", groupKey: "g" });
    const working = queue.client.queue("emails").consume(() => done.promise, { stopWhenEmpty: true });
    for (let beat = 1; beat <= 3; beat += 1) {
      await queue.time.waited(20_000, 2);
      queue.time.advance(20_000);
      await queue.called("/m1/extend", beat);
      await queue.called("/m2/extend", beat);
    }
    expect(queue.calls("/m1/extend")).toEqual(Array(3).fill({ receipt: "r-m1", visibilityTimeoutSeconds: 60 }));
    done.resolve();
    expect(await working).toEqual({ handled: 2, failed: 0 });
    queue.time.advance(600_000);
    expect(queue.calls("/m1/extend")).toHaveLength(3);
  });

  it("C13: a visibility timeout of the worker's own is asked for and kept", async () => {
    const queue = await open();
    const done = event();
    queue.put({ id: "m1" });
    const working = queue.client.queue("emails").consume(() => done.promise, { stopWhenEmpty: true, visibilityTimeout: "15m" });
    await queue.time.waited(300_000);
    queue.time.advance(300_000);
    await queue.called("/extend");
    expect(queue.calls("/extend")).toEqual([{ receipt: "r-m1", visibilityTimeoutSeconds: 900 }]);
    expect(queue.calls("/receive")[0]).toMatchObject({ visibilityTimeoutSeconds: 900 });
    done.resolve();
    await working;
  });

  it("C13: an extension that fails for now is tried again; a lease that is lost tells the handler, is reported once and never acknowledged", async () => {
    const queue = await open();
    const { errors, onError } = reports();
    let extensions = 0;
    queue.answer("/extend", () => (++extensions === 1 ? problem(503, "overloaded") : problem(409, "receipt_mismatch")));
    queue.put({ id: "m1" });
    const working = queue.client.queue("emails").consume(untilLost, { stopWhenEmpty: true, onError });
    await beat(queue, 2);
    expect(await working).toEqual({ handled: 1, failed: 0 });
    expect(errors).toEqual([[expect.any(LeaseLostError), "lease", "m1"]]);
    expect(queue.calls("/messages/ack")).toEqual([]);
  });
});

describe("a lease that nobody extends", () => {
  it("C13: is lost once it has ended, though the server could not say so", async () => {
    const queue = await open();
    const { errors, onError } = reports();
    queue.answer("/extend", () => problem(500, "internal"));
    queue.put({ id: "m1" });
    const working = queue.client.queue("emails").consume(untilLost, { stopWhenEmpty: true, onError });
    await beat(queue, 3, () => expect(errors).toEqual([]));
    expect(await working).toEqual({ handled: 1, failed: 0 });
    expect(errors).toEqual([[expect.any(LeaseLostError), "lease", "m1"]]);
    expect(queue.calls("/messages/ack")).toEqual([]);
  });
});

describe("settling", () => {
  it("C13: a failed acknowledgement is reported and never becomes a failed job, whether refused or unanswered", async () => {
    const queue = await open();
    const { errors, onError } = reports();
    let acks = 0;
    queue.answer("/messages/ack", () =>
      ++acks === 1 ? json({ results: [{ messageId: "m0", acknowledged: false, code: "receipt_mismatch" }] }) : { drop: "request" },
    );
    const work = vi.fn();
    for (const message of some(2)) {
      queue.put(message);
      expect(await queue.client.queue("emails").consume(work, { stopWhenEmpty: true, onError })).toEqual({ handled: 1, failed: 0 });
    }
    expect(errors.map(([error, during, id]) => [error instanceof AcknowledgeError && error.code, during, id])).toEqual([
      ["receipt_mismatch", "settle", "m0"],
      ["unreachable", "settle", "m1"],
    ]);
    expect(work).toHaveBeenCalledTimes(2);
    expect(queue.calls("/nack")).toEqual([]);
  });

  it("C13: a message that cannot be given back does not stop the worker, and a reporter that throws does not either", async () => {
    const queue = await open();
    queue.answer("/nack", () => problem(409, "receipt_mismatch"));
    queue.put(...some(3));
    const onError = vi.fn(() => {
      throw new Error("the reporter is broken");
    });
    const work = (payload: unknown) => {
      if (payload !== 2) throw new Error("down");
    };
    expect(await queue.client.queue("emails").consume(work, { stopWhenEmpty: true, onError })).toEqual({ handled: 1, failed: 2 });
    expect(onError).toHaveBeenCalledTimes(4);
  });

  it("C13: without onError errors are one line each on the console", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const queue = await open();
    queue.put({ id: "m1" });
    await queue.client.queue("emails").consume(
      () => {
        throw new Error("two\nlines");
      },
      { stopWhenEmpty: true },
    );
    expect(log.mock.calls).toEqual([["consume, handle of m1: two lines"]]);
  });
});

describe("stopping and trouble", () => {
  it("C13: on its signal a worker hangs up its receive, finishes and settles what it began, and gives back what it did not", async () => {
    const queue = await open();
    const stop = new AbortController();
    const done = event();
    queue.put({ id: "m1", groupKey: "g" }, { id: "m2", groupKey: "g" });
    const working = queue.client.queue("emails").consume(() => done.promise, { signal: stop.signal });
    await queue.called("/receive", 2);
    const waiting = queue.server.requests.filter(({ path }) => path.endsWith("/receive"))[1];
    stop.abort();
    expect(await waiting?.done).toBe(false);
    done.resolve();
    expect(await working).toEqual({ handled: 1, failed: 0 });
    expect(queue.calls("/messages/ack")).toEqual([{ messages: [{ messageId: "m1", receipt: "r-m1" }] }]);
    expect(queue.calls("/nack")).toEqual([{ receipt: "r-m2", delaySeconds: 0, countAttempt: false }]);
    expect(await queue.client.queue("emails").consume(() => {}, { signal: stop.signal })).toEqual({ handled: 0, failed: 0 });
    expect(queue.calls("/receive")).toHaveLength(2);
  });

  it("C13: a server that is down for a while is waited for; an empty answer at once is not asked again at once", async () => {
    const queue = await open();
    const { errors, onError } = reports();
    const stop = new AbortController();
    let receives = 0;
    queue.answer("/receive", () => {
      receives += 1;
      if (receives <= 2) return { drop: "request" };
      return receives === 3 ? json({ messages: [] }) : undefined;
    });
    const seen = event();
    queue.put({ id: "m1" });
    const working = queue.client.queue("emails").consume(() => seen.resolve(), { signal: stop.signal, onError });
    for (const ms of [200, 400, 1000]) {
      await queue.time.waited(ms);
      queue.time.advance(ms);
    }
    await seen.promise;
    stop.abort();
    expect(await working).toMatchObject({ handled: 1 });
    expect(errors.map(([, during]) => during)).toEqual(["receive", "receive"]);
  });

  it("C13: what waiting cannot mend ends the worker, after what was begun is settled", async () => {
    const queue = await open();
    const done = event();
    let receives = 0;
    queue.answer("/receive", () => (++receives === 1 ? undefined : problem(403, "permission_denied")));
    queue.put({ id: "m1" });
    const working = queue.client.queue("emails").consume(() => done.promise);
    await queue.called("/receive", 2);
    done.resolve();
    await expect(working).rejects.toMatchObject({ code: "permission_denied" });
    expect(queue.calls("/messages/ack")).toHaveLength(1);
    await expect(queue.client.queue("emails").consume(() => {}, { concurrency: 0 })).rejects.toThrow(
      "concurrency: must be a whole number from 1 to 1000",
    );
    await expect(queue.client.queue("emails").consume(() => {}, { wait: "21s" })).rejects.toThrow("wait: must be 0 to 20 seconds");
  });

  it("C11: a worker that starts before anybody sent makes the queue, unless told not to", async () => {
    const queue = await open();
    let made = false;
    queue.answer("/queues/emails", () => {
      made = true;
      return json({ created: true });
    });
    queue.answer("/receive", () => (made ? undefined : problem(404, "queue_not_found")));
    await expect(queue.client.queue("emails", { autoCreate: false }).consume(() => {}, { stopWhenEmpty: true })).rejects.toMatchObject({
      code: "queue_not_found",
    });
    expect(made).toBe(false);
    expect(await queue.client.queue("emails").consume(() => {}, { stopWhenEmpty: true })).toEqual({ handled: 0, failed: 0 });
    expect(made).toBe(true);
  });
});
