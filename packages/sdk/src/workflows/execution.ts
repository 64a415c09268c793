/**
 * One execution of a run: the replay core, which knows no transport. It calls the workflow's function and answers its steps, first those
 * of the journal, in the order in which the code once learned of them and one at a time, then new ones. Invariant: nothing is carried
 * out before every recorded step was reached, and no code after a step runs before that step is recorded.
 */
import type { ExecutionAnswer, JournalStep, StepRecord, StepType } from "@millrace/contract/wire";
import { CancelledError, cancelledCode, cancelledRecord, recordOf, StepError } from "./errors.ts";
import { blocked, ExecutionOver, type Host, type Opening, type Plan, type Reach } from "./host.ts";
import { inOrder, isFinished, named, openJournal } from "./journal.ts";
import { createFan, type Fan } from "./signals.ts";
import { decodeValue, encodeValue } from "./value.ts";

interface Step {
  id: string;
  type: StepType;
  plan: Plan;
  /** Tries that ended. */
  attempt: number;
  /** Before the next try, in milliseconds. */
  pauseMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Steps of one run that are carried out at the same time. */
const maxActive = 100;
/** Sleeps, waits and children that are recorded with the answer. */
const maxUnsent = 100;
/** How long the code may be busy with something that is no step before it counts as waiting. */
const settleMs = 5;
/** Before the server is asked once more for what should be over. */
const askAgainMs = 500;
/** As `settleMs`, before it is told that it lacks a recorded step. */
const graceMs = 1000;
const maxOutputBytes = 4 * 1024 * 1024;

/** Whether a step tells the code that this run was cancelled. A child's cancellation is the child's alone. */
const isCancelled = ({ type, status, error }: JournalStep): boolean =>
  status === "cancelled" || (type !== "child" && error?.code === cancelledCode);

/** Runs `body` against the journal until it ends or can't go on. `undefined`: there is nothing to answer. Never rejects. */
export function execute(opening: Opening, body: (reach: Reach) => Promise<unknown>, host: Host): Promise<ExecutionAnswer | undefined> {
  const journal = openJournal(opening.steps);
  // What a retried run kept of earlier attempts may be more than this attempt comes to.
  const lenient = opening.attempt > 1;
  const names = new Map<string, number>();
  const open = new Map<string, Step>();
  let fresh: Step[] = [];
  const blockedOn = new Set<string>();
  const asked = new Set<string>();
  const unsent: StepRecord[] = [];
  let active = 0;
  let lingering = 0;
  let pauses = 0;
  let activity = 0;
  /** The code was called or told something less than a turn ago: it may be about to come to a step. */
  let running = false;
  /** `begin` is called as soon as this bit of code is through. */
  let beginning = false;
  let over = false;
  let outcome: ExecutionAnswer | undefined;
  let waits: Fan | undefined;
  let finish: (answer: ExecutionAnswer | undefined) => void;
  const ended = new Promise<ExecutionAnswer | undefined>((resolve) => {
    finish = resolve;
  });

  const end = (answer: ExecutionAnswer | undefined): void => {
    if (over) return;
    over = true;
    host.signal.removeEventListener("abort", lost);
    waits?.abort();
    finish(answer);
  };
  const lost = (): void => end(undefined);

  /** Lets the code run until it waits, then goes on. */
  const settle = (): void => {
    activity += 1;
    if (running) return;
    running = true;
    const since = activity;
    void host.turn().then(() => {
      running = false;
      advance(activity === since);
    });
  };
  /** Something happened that is not the code's doing. */
  const goOn = (): void => {
    activity += 1;
    advance(false);
  };

  const reach: Reach = (type, name, plan) => {
    const count = (names.get(name) ?? 0) + 1;
    names.set(name, count);
    const id = count === 1 ? name : `${name}#${count}`;
    const known = journal.find(id);
    if (known !== undefined && known.type !== type) {
      end(blocked("nondeterminism", `the journal has ${named(known)} where the code has ${named({ id, type })}`));
    }
    return new Promise<unknown>((resolve, reject) => {
      if (over) return;
      journal.reach(id);
      const pauseMs = known?.retryAt === undefined ? 0 : known.retryAt - host.now();
      const step = { id, type, plan: plan(id), attempt: known?.attempt ?? 0, pauseMs, resolve, reject };
      open.set(id, step);
      if (known === undefined || !isFinished(known)) {
        fresh.push(step);
        beginSoon();
      }
      settle();
    });
  };

  /** Tells the code how a step ended. */
  const tell = (entry: JournalStep): void => {
    journal.told(entry);
    const step = open.get(entry.id);
    open.delete(entry.id);
    blockedOn.delete(entry.id);
    if (isCancelled(entry)) step?.reject(new CancelledError(entry.error?.message));
    else if (entry.status === "failed") step?.reject(new StepError(entry.id, entry.error ?? { name: "Error", message: "failed" }));
    else step?.resolve(decodeValue(entry.result));
  };

  /** Records, and takes in what the server says; answers the entries that came back. */
  const record = async (records: readonly StepRecord[]): Promise<readonly JournalStep[]> => {
    let back: readonly JournalStep[] = [];
    active += 1;
    try {
      back = await host.record(records);
      for (const made of records) if (isFinished(made) && !back.some(({ id }) => id === made.id)) journal.ended(made);
      for (const entry of inOrder(back)) {
        if (!open.has(entry.id)) continue;
        if (isFinished(entry)) journal.ended(entry);
        else askWhenDue(entry);
      }
    } catch (error) {
      end(error instanceof ExecutionOver ? error.answer : { status: "suspended", again: true });
    } finally {
      active -= 1;
      goOn();
    }
    return back;
  };

  /** Waits as long as the execution lasts. */
  const waitHere = async (ms: number): Promise<void> => {
    waits ??= createFan();
    const one = waits.fork();
    await host.wait(ms, one.signal);
    waits.release(one);
  };

  /** Asks how steps stand that the server ends. */
  const ask = (ids: readonly string[]): void => {
    const plans = ids.map((id) => open.get(id)?.plan).filter((plan) => plan?.kind === "pending");
    if (!over && plans.length > 0) void record(plans.map((plan) => plan.record));
  };

  /** While other steps keep the execution alive, what is over is asked for; a little later again where the server's time is behind. */
  const askWhenDue = ({ id, until }: JournalStep): void => {
    if (until === undefined || asked.has(id)) return;
    asked.add(id);
    const inMs = until - host.now();
    void waitHere(inMs > 0 ? inMs : askAgainMs).then(() => {
      asked.delete(id);
      if (active > 0) ask([id]);
    });
  };

  /** Carries a step out once and records what came of it. */
  const work = async (step: Step, perform: (attempt: number) => Promise<StepRecord>): Promise<void> => {
    active += 1;
    const made = await perform(step.attempt + 1);
    active -= 1;
    if (over) return;
    const back = await record([made]);
    // Of two records of one step the first counts: an earlier execution may have ended it.
    if (over || made.status !== "retrying" || isFinished(back.find(({ id }) => id === step.id) ?? made)) return;
    step.attempt = made.attempt;
    step.pauseMs = made.delayMs;
    fresh.push(step);
    goOn();
  };

  const pause = (step: Step): void => {
    const near = step.pauseMs <= host.lingerMs;
    pauses += 1;
    if (near) lingering += 1;
    void waitHere(step.pauseMs).then(() => {
      pauses -= 1;
      if (near) lingering -= 1;
      step.pauseMs = 0;
      fresh.push(step);
      goOn();
    });
  };

  /** Begins what the code has come to since, once everything recorded was reached. */
  const begin = (): void => {
    const cancelling = opening.cancelled && !journal.knowsCancelled(isCancelled);
    const held: Step[] = [];
    for (const step of fresh) {
      const { id, type, plan } = step;
      if (plan.kind === "pending") {
        const known = journal.find(id);
        blockedOn.add(id);
        if (known !== undefined) askWhenDue(known);
        else if (plan.eager || opening.cancelled) void record([plan.record]);
        else unsent.push(plan.record);
      } else if (cancelling && (type === "run" || type === "send")) {
        void work(step, async (attempt) => ({ id, type, status: "failed", attempt, error: cancelledRecord }));
      } else if (step.pauseMs > 0) pause(step);
      else if (host.closing() || active >= maxActive) held.push(step);
      else void work(step, plan.perform);
    }
    fresh = held;
    // An answer takes only so many along.
    while (unsent.length > 0 && (active > 0 || unsent.length > maxUnsent)) void record(unsent.splice(0, maxUnsent));
  };

  /** Begins without waiting for the turn's end where the journal has nothing left that could come first. */
  const beginSoon = (): void => {
    if (beginning) return;
    beginning = true;
    queueMicrotask(() => {
      beginning = false;
      if (!over && outcome === undefined && journal.next(lenient) === undefined && journal.missing() === undefined) begin();
    });
  };

  /** The journal has a step that the code did not come to: it may still be on its way, or gone. */
  const lacks = async (missing: JournalStep): Promise<void> => {
    const since = activity;
    const attempted = fresh[0] ?? open.values().next().value;
    if (outcome === undefined) {
      if (attempted === undefined) return;
      await host.patience(graceMs);
      if (activity !== since) return;
    }
    const instead = outcome === undefined ? named(attempted as Step) : "the end of the function";
    end(blocked("nondeterminism", `the journal has ${named(missing)}, which the code did not come to; it came to ${instead}`));
  };

  /** Nothing is under way: the run is given back, unless the code waits for something of its own, for a little. */
  const suspend = async (): Promise<void> => {
    const since = activity;
    await host.patience(settleMs);
    if (activity === since) end({ status: "suspended", ...(fresh.length > 0 ? { again: true } : {}), steps: unsent });
  };

  /** Goes on as far as it can: one end told, or everything begun. `quiet`: the code came to nothing in the turn that is over. */
  const advance = (quiet: boolean): void => {
    if (over || running) return;
    const next = outcome === undefined ? journal.next(lenient) : undefined;
    if (next !== undefined && open.has(next.id)) {
      tell(next);
      settle();
      return;
    }
    const missing = lenient ? undefined : journal.missing();
    if (missing !== undefined) {
      if (quiet) void lacks(missing);
      else settle();
    } else if (outcome !== undefined) end(outcome);
    else {
      begin();
      if (active === 0 && lingering === 0 && (blockedOn.size > 0 || pauses > 0 || fresh.length > 0)) void suspend();
    }
  };

  /** Whether the code heard of the cancellation by a step alone: the server, which did not tell it, is to be told that the run ends so. */
  const heard = (): boolean => !opening.cancelled && journal.knowsCancelled(isCancelled);
  const isCancelledBy = (thrown: unknown): boolean => heard() || (opening.cancelled && thrown instanceof CancelledError);
  const returned = (value: unknown): ExecutionAnswer => {
    if (heard()) return { status: "cancelled" };
    try {
      return { status: "completed", output: encodeValue(value, "the run's output", maxOutputBytes) };
    } catch (error) {
      return { status: "failed", error: recordOf(error) };
    }
  };
  host.onEnded?.(ask);
  host.signal.addEventListener("abort", lost, { once: true });
  if (host.signal.aborted) lost();
  void body(reach).then(
    (value) => {
      outcome = returned(value);
      settle();
    },
    (thrown: unknown) => {
      outcome = { status: isCancelledBy(thrown) ? "cancelled" : "failed", error: recordOf(thrown) };
      settle();
    },
  );
  settle();
  return ended;
}
