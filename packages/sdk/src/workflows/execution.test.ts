import type { StepRecord } from "@millrace/contract/wire";
import { describe, expect, it } from "vitest";
import { NonRetryableError, RetryLaterError } from "../outcome.ts";
import { crashing } from "./crashing.fixture.ts";
import { StepError } from "./errors.ts";
import { ExecutionOver, type Host } from "./host.ts";
import { runWorkflow } from "./run.ts";
import type { Step } from "./step.ts";
import { turn } from "./turn.ts";
import { type AnyWorkflow, type WorkflowOptions, workflow } from "./workflow.ts";

const code = (run: (step: Step) => Promise<unknown>, options?: WorkflowOptions<unknown>): AnyWorkflow =>
  workflow<unknown>("t", ({ step }) => run(step), options);

/** One execution on a host whose parts a test replaces; what it records is kept. */
function once(tested: AnyWorkflow, parts: Partial<Host> = {}, cancelled = false) {
  const records: StepRecord[] = [];
  const waits: number[] = [];
  const host: Host = {
    async record(made) {
      records.push(...made);
      return [];
    },
    turn,
    now: () => 0,
    async wait(ms) {
      waits.push(ms);
      await turn();
    },
    patience: turn,
    lingerMs: 2000,
    closing: () => false,
    signal: new AbortController().signal,
    ...parts,
  };
  const run = { runId: "r", attempt: 1, cancelled, steps: [], input: undefined };
  const runtime = { wait: () => new Promise<void>(() => {}), random: () => 0, uuid: () => "u" };
  return { records, waits, answer: runWorkflow(tested, run, { host, runtime }) };
}

describe("tries of a step", () => {
  it("W7: a step is tried three times more, after 1 s, 2 s and 4 s, then fails with its last error; short pauses are waited for", async () => {
    const tested = code((step) =>
      step.run("charge", ({ attempt }) => {
        throw Object.assign(new Error(`declined ${attempt}`), { name: "CardDeclinedError" });
      }),
    );
    const { records, waits, answer } = once(tested, { lingerMs: 10_000 });
    expect(await answer).toMatchObject({ status: "failed", error: { code: "user", name: "CardDeclinedError", message: "declined 4" } });
    expect(records.map(({ status }) => status)).toEqual(["retrying", "retrying", "retrying", "failed"]);
    expect(waits).toEqual([1000, 2000, 4000]);
  });

  it("W7: a pause that is longer than the execution lingers gives the run back", async () => {
    const tested = code((step) =>
      step.run("charge", () => {
        throw new Error("no");
      }),
    );
    const { answer, records } = once(tested, { wait: () => new Promise(() => {}), lingerMs: 500 });
    expect(await answer).toMatchObject({ status: "suspended" });
    expect(records).toMatchObject([{ id: "charge", status: "retrying", attempt: 1, delayMs: 1000 }]);
  });

  it("W7, C12: NonRetryableError fails the step at once, RetryLaterError waits and spends no try", async () => {
    const given = code(async (step) => {
      await step.run("never", () => {
        throw new NonRetryableError("no such card");
      });
    });
    const first = once(given);
    expect(await first.answer).toMatchObject({ status: "failed", error: { message: "no such card" } });
    expect(first.records).toHaveLength(1);

    let calls = 0;
    const later = code((step) =>
      step.run(
        "later",
        ({ attempt }) => {
          calls += 1;
          if (calls < 4) throw new RetryLaterError("90s");
          return attempt;
        },
        { retry: 0 },
      ),
    );
    const second = once(later, { lingerMs: 100_000 });
    expect(await second.answer).toMatchObject({ status: "completed", output: "1" });
    expect(second.waits).toEqual([90_000, 90_000, 90_000]);
  });

  it("W7: the workflow's policy holds for its steps, and a step's own goes before it", async () => {
    const tested = code(
      async (step) => {
        const tries = (name: string, retry?: number) => {
          let made = 0;
          const all = step.run(
            name,
            () => {
              made += 1;
              throw new Error("no");
            },
            retry === undefined ? {} : { retry },
          );
          return all.catch((error: StepError) => [made, error instanceof StepError && error.stepId]);
        };
        return [await tries("a"), await tries("b", 0)];
      },
      { retry: { retries: 1, delay: 0 } },
    );
    expect(await crashing().finish(tested)).toMatchObject({ output: '[[2,"a"],[1,"b"]]' });
    expect(() => code(async () => 1, { retry: -1 })).toThrow("retry: must be a whole number of tries from 0 to 100, got -1");
    expect(() => code(async () => 1, { retry: { delay: "31d" } })).toThrow("retry.delay: must be 0 to 2592000 seconds");
  });

  it("W7: a try that takes longer than its timeout fails, its signal is aborted, and it is tried again", async () => {
    let aborted = 0;
    const tested = code((step) =>
      step.run(
        "slow",
        ({ signal, attempt }) => {
          if (attempt === 2) return "in time";
          return new Promise<string>(() => signal.addEventListener("abort", () => (aborted += 1)));
        },
        { timeout: "5s" },
      ),
    );
    const records: StepRecord[] = [];
    const host: Host = {
      async record(made) {
        records.push(...made);
        return [];
      },
      turn,
      now: () => 0,
      wait: turn,
      patience: turn,
      lingerMs: 2000,
      closing: () => false,
      signal: new AbortController().signal,
    };
    const run = { runId: "r", attempt: 1, cancelled: false, steps: [], input: undefined };
    const runtime = { wait: turn, random: () => 0, uuid: () => "u" };
    expect(await runWorkflow(tested, run, { host, runtime })).toMatchObject({ status: "completed", output: '"in time"' });
    expect(records[0]).toMatchObject({
      status: "retrying",
      error: { name: "StepTimeoutError", message: "step slow took longer than 5 s" },
    });
    expect(aborted).toBe(1);
  });
});

describe("an execution", () => {
  it("W6: where the lease is nearly over, what was begun ends and is recorded, and nothing begins any more", async () => {
    let closing = false;
    const tested = code(async (step) => {
      await step.run("a", () => {
        closing = true;
      });
      await step.run("b", () => 1);
    });
    const { records, answer } = once(tested, { closing: () => closing });
    expect(await answer).toEqual({ status: "suspended", again: true, steps: [] });
    expect(records.map(({ id }) => id)).toEqual(["a"]);
  });

  it("W6: a sleep is recorded while other steps are under way, else with the answer", async () => {
    const alone = once(code((step) => step.sleep("nap", "1h")));
    expect(await alone.answer).toEqual({ status: "suspended", steps: [{ id: "nap", type: "sleep", status: "pending", forMs: 3_600_000 }] });
    expect(alone.records).toEqual([]);
    const beside = once(code((step) => Promise.all([step.run("a", turn), step.sleep("nap", "1h")])));
    expect(await beside.answer).toEqual({ status: "suspended", steps: [] });
    expect(beside.records.map(({ id }) => id).sort()).toEqual(["a", "nap"]);
  });

  it("W6: a sleep that is over while another step is under way is asked for, every half a second until the server has ended it", async () => {
    const tested = code(async (step) => {
      const long = step.run("long", async () => {
        for (let n = 0; n < 50; n += 1) await turn();
        return "long";
      });
      return Promise.race([long, step.sleep("nap", 1).then(() => "nap")]);
    });
    const asked = (ends: boolean) => {
      const calls: string[] = [];
      const record: Host["record"] = async (made) => {
        calls.push(...made.map(({ id }) => id));
        await turn();
        const over = ends && calls.length > 1;
        return made
          .filter(({ type }) => type === "sleep")
          .map(({ id }) => ({ id, type: "sleep", status: over ? "completed" : "pending", until: over ? undefined : 0 }));
      };
      const { waits, answer } = once(tested, { record });
      return { calls, waits, answer };
    };
    const ended = asked(true);
    expect(await ended.answer).toMatchObject({ status: "completed", output: '"nap"' });
    expect([ended.calls, ended.waits]).toEqual([["nap", "nap"], [500]]);
    const pending = asked(false);
    expect(await pending.answer).toMatchObject({ status: "completed", output: '"long"' });
    expect(pending.calls.filter((id) => id === "nap").length).toBeGreaterThan(2);
    expect(new Set(pending.waits)).toEqual(new Set([500]));
  });

  it("W14, W6: a message that is there while another step is under way is asked for, and the code goes on with it at once", async () => {
    let end = (_: string): void => {};
    let tell = (_: readonly string[]): void => {};
    const tested = code(async (step) => {
      const [long, paid] = await Promise.all([
        step.run("long", () => new Promise<string>((resolve) => (end = resolve))),
        step.waitForMessage("paid", { queueId: "q", key: "k", timeoutSeconds: 60 }).then((message) => {
          end(message?.body ?? "none");
          return message?.body;
        }),
      ]);
      return [long, paid];
    });
    let there = false;
    const result = JSON.stringify({ messageId: "m", body: "ok", attributes: {}, sentAt: "", queueId: "q" });
    const { answer } = once(tested, {
      async record(made) {
        const waits = made.filter(({ type }) => type === "wait");
        if (waits.length > 0) setImmediate(() => tell(["paid", "unknown"]));
        const status = there ? "completed" : "pending";
        there = true;
        return waits.map(({ id }) => ({ id, type: "wait", status, until: 60_000, ...(status === "completed" ? { result } : {}) }));
      },
      wait: () => new Promise(() => {}),
      onEnded(listener) {
        tell = listener;
      },
    });
    expect(await answer).toMatchObject({ status: "completed", output: '["ok","ok"]' });
  });

  it("W10: a step under way is told of the cancellation by its signal; what gives up is no failure, and the run ends cancelled", async () => {
    const cancelling = new AbortController();
    const tested = code((step) =>
      step.run("long", ({ signal }) => {
        setImmediate(() => cancelling.abort());
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
      }),
    );
    const { answer, records } = once(tested, { cancelling: cancelling.signal, closing: () => cancelling.signal.aborted });
    expect(await answer).toMatchObject({ status: "cancelled", error: { name: "CancelledError" } });
    expect(records).toMatchObject([{ id: "long", status: "failed", attempt: 1, error: { code: "cancelled", name: "CancelledError" } }]);
  });

  it("W10: what cleans up after a step that gave up is left to the next execution, whose journal tells of the cancellation", async () => {
    const cancelling = new AbortController();
    const tested = code(async (step) => {
      const long = ({ signal }: { signal: AbortSignal }) => {
        setImmediate(() => cancelling.abort());
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
      };
      await step.run("long", long).catch(() => step.run("clean up", () => true));
    });
    const { answer, records } = once(tested, { cancelling: cancelling.signal, closing: () => cancelling.signal.aborted });
    expect(await answer).toEqual({ status: "suspended", again: true, steps: [] });
    expect(records.map(({ id }) => id)).toEqual(["long"]);
  });

  it("W6: steps one after the other take one turn each, which none of them waits for; steps side by side are begun together", async () => {
    let turns = 0;
    const begun: [string, number][] = [];
    const begin = ({ stepId }: { stepId: string }) => begun.push([stepId, turns]);
    const tested = code(async (step) => {
      await step.run("a", begin);
      await step.run("b", begin);
      await Promise.all([step.run("c", begin), step.run("d", begin)]);
    });
    const counted = async (): Promise<void> => {
      await turn();
      turns += 1;
    };
    expect(await once(tested, { turn: counted, record: () => turn().then(() => []) }).answer).toMatchObject({ status: "completed" });
    expect(begun.map(([id]) => id)).toEqual(["a", "b", "c", "d"]);
    expect(begun[0]).toEqual(["a", 0]);
    expect(begun[2]?.[1]).toBe(begun[3]?.[1]);
    expect(turns).toBe(5);
  });

  it("W7: at most a hundred steps of a run are carried out at once", async () => {
    let open = 0;
    let most = 0;
    const tested = code(async (step) => {
      const all = Array.from({ length: 250 }, () =>
        step.run("part", async () => {
          most = Math.max(most, ++open);
          await turn();
          open -= 1;
          return 1;
        }),
      );
      return (await Promise.all(all)).length;
    });
    expect(await once(tested).answer).toMatchObject({ output: "250" });
    expect(most).toBe(100);
  });

  it("W9: a lost execution begins nothing more and answers nothing", async () => {
    const lost = new AbortController();
    const ran: string[] = [];
    const tested = code(async (step) => {
      await step.run("a", ({ signal }) => {
        lost.abort(new Error("lost"));
        ran.push(`aborted ${signal.aborted}`);
      });
      await step.run("b", () => ran.push("b"));
    });
    expect(await once(tested, { signal: lost.signal }).answer).toBeUndefined();
    expect(ran).toEqual(["aborted true"]);
  });

  it("W9: a record that the server refuses ends the execution as the server says", async () => {
    const tested = code(async (step) => {
      await step.run("a", () => 1);
      throw new Error("never reached");
    });
    const refuse = (over: ExecutionOver) => once(tested, { record: () => Promise.reject(over) }).answer;
    expect(await refuse(new ExecutionOver("stale"))).toBeUndefined();
    expect(await refuse(new ExecutionOver("bad", { status: "suspended", again: true }))).toEqual({ status: "suspended", again: true });
  });

  it("W7: a step that fails and that nobody awaits does not end the process, nor the run", async () => {
    const tested = code(async (step) => {
      void step.run("floating", () => {
        throw new NonRetryableError("nobody looks");
      });
      return step.run("main", () => "fine");
    });
    expect(await crashing().finish(tested)).toMatchObject({ status: "completed", output: '"fine"' });
  });

  it("W7: code that awaits something of its own is waited for, also beside a sleep", async () => {
    const tested = code(async (step) => {
      const nap = step.sleep("nap", 60);
      for (let n = 0; n < 3; n += 1) await turn();
      const [hash] = await Promise.all([step.run("hash", () => 7), nap]);
      return hash;
    });
    const run = crashing();
    expect(await run.finish(tested)).toMatchObject({ output: "7" });
  });

  it("W7: a name may be neither empty nor too long nor hold a # or half a character", async () => {
    for (const name of ["", "a#2", "x".repeat(251), "half \ud800", "a\0b"]) {
      const tested = code((step) => step.run(name, () => 1));
      expect(await crashing().finish(tested)).toMatchObject({ status: "failed", error: { name: "RangeError" } });
    }
  });

  it("W18: an input that does not fit its schema fails the run and says where; one that fits is what the schema made of it", async () => {
    const input = (value: unknown) => {
      if (typeof (value as { id?: unknown } | null)?.id !== "number")
        throw Object.assign(new Error(), { issues: [{ message: "no number", path: ["id"] }] });
      return { id: (value as { id: number }).id + 1 };
    };
    const tested = workflow("t", ({ input: given }) => given.id, { input });
    expect(await crashing({ input: { id: "x" } }).finish(tested)).toMatchObject({
      status: "failed",
      error: { name: "InvalidPayloadError", message: "the input is not valid: id: no number" },
    });
    expect(await crashing({ input: { id: 1 } }).finish(tested)).toMatchObject({ output: "2" });
  });

  it("W18: a journal of 10,000 steps is replayed in a moment", async () => {
    const tested = code(async (step) => {
      let sum = 0;
      for (let n = 0; n < 10_000; n += 1) sum += await step.run("part", () => 1);
      return sum;
    });
    const run = crashing();
    run.memory.record(
      Array.from({ length: 10_000 }, (_, n) => ({
        id: n === 0 ? "part" : `part#${n + 1}`,
        type: "run" as const,
        status: "completed" as const,
        attempt: 1,
        result: "1",
      })),
    );
    expect(await run.execute(tested)).toMatchObject({ output: "10000" });
    expect(run.records()).toBe(0);
  });
});
