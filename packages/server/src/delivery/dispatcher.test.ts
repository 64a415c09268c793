import { afterEach, describe, expect, it } from "vitest";
import { createClock, type VirtualClock } from "../clock.ts";
import { AHEAD_MS, createDispatcher, type Dispatcher } from "./dispatcher.ts";
import type { Claimed, Opened } from "./lane.ts";

interface Delivery {
  work: number;
  opened: Opened;
  /** Ends the request and its settlement. */
  end(): void;
}

/** A source over a plain list of work: what a noun folder is to the dispatcher, without a store. */
class Source {
  readonly key: string;
  limit: number;
  work: number[] = [];
  nextInMs: number | null = null;
  asked: number[] = [];
  released: number[] = [];
  open: Delivery[] = [];
  most = 0;
  failing = false;
  hold: Promise<void> | undefined;
  spare = 0;
  private readonly waits = new Set<() => void>();

  constructor(key: string, limit: number, work: number) {
    this.key = key;
    this.limit = limit;
    this.work = Array.from({ length: work }, (_, i) => i + 1);
  }
  permit(inFlight: number): { start: number; inMs: number | null } {
    return { start: this.limit - inFlight, inMs: null };
  }
  ahead(): number {
    return this.spare;
  }
  async claim(n: number): Promise<Claimed<number>> {
    this.asked.push(n);
    this.changed();
    await this.hold;
    if (this.failing) throw new Error("the store is away");
    return { work: this.work.splice(0, n), nextInMs: this.nextInMs };
  }
  deliver(work: number, opened: Opened): Promise<void> {
    return new Promise((resolve) => {
      const delivery = {
        work,
        opened,
        end: () => {
          this.open.splice(this.open.indexOf(delivery), 1);
          opened.over();
          resolve();
        },
      };
      this.open.push(delivery);
      this.most = Math.max(this.most, this.open.length);
      opened.signal.addEventListener("abort", () => delivery.end());
      this.changed();
    });
  }
  async release(work: number[]): Promise<void> {
    this.released.push(...work);
    this.changed();
  }
  changed(): void {
    for (const call of this.waits) call();
  }
  /** Resolves once `met` holds; looked at whenever the source is called. */
  until(met: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!met()) return;
        this.waits.delete(look);
        resolve();
      };
      this.waits.add(look);
      look();
    });
  }
}

/** Every callback queued so far has run: two turns of the loop, no time. */
const turn = async () => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

describe("the dispatcher", () => {
  let clock: VirtualClock;
  let dispatcher: Dispatcher;
  const errors: unknown[] = [];
  const begin = () => {
    clock = createClock({ frozen: true });
    errors.length = 0;
    dispatcher = createDispatcher({ clock, report: (error) => errors.push(error) });
  };
  afterEach(() => dispatcher.stop(0));

  it("P13: never has more requests open than the limit, claims only what can start, and goes on when one is over", async () => {
    begin();
    const source = new Source("a", 3, 10);
    dispatcher.add(source);
    await source.until(() => source.open.length === 3);
    await turn();
    expect(source.asked).toEqual([3]);
    source.open[0]?.end();
    await source.until(() => source.asked.length === 2 && source.open.length === 3);
    expect(source.asked).toEqual([3, 1]);
    while (source.work.length > 0 || source.open.length > 0) {
      source.open[0]?.end();
      await turn();
    }
    expect(source.most).toBe(3);
  });

  it("P13: slots that become free while a claim is under way are claimed for at once, never twice, and by two claims at most", async () => {
    begin();
    const source = new Source("a", 6, 60);
    dispatcher.add(source);
    await source.until(() => source.open.length === 6);
    let go: () => void = () => {};
    source.hold = new Promise((resolve) => {
      go = resolve;
    });
    for (let ended = 1; ended <= 3; ended++) {
      source.open[0]?.end();
      await turn();
    }
    expect(source.asked).toEqual([6, 1, 1]);
    go();
    await source.until(() => source.open.length === 6);
    while (source.work.length > 0 || source.open.length > 0) {
      source.open[0]?.end();
      await turn();
    }
    expect(source.most).toBe(6);
    expect(source.released).toEqual([]);
  });

  it("P13, P16: work held ready starts as soon as a slot is free, within the limit, and is claimed in few pieces", async () => {
    begin();
    const source = new Source("a", 4, 100);
    source.spare = 8;
    dispatcher.add(source);
    await source.until(() => source.open.length === 4);
    await turn();
    expect(source.asked).toEqual([12]);
    source.open[0]?.end();
    expect(source.open.map(({ work }) => work)).toEqual([2, 3, 4, 5]);
    await turn();
    expect(source.asked).toEqual([12]);
    source.open[0]?.end();
    source.open[0]?.end();
    await turn();
    expect(source.asked).toEqual([12, 3]);
    while (source.work.length > 0 || source.open.length > 0) {
      source.open[0]?.end();
      await turn();
    }
    expect(source.most).toBe(4);
    expect(source.released).toEqual([]);
  });

  it("P8, P23: work that stands ready too long is given back, its lease untouched by an endpoint that became slow", async () => {
    begin();
    const source = new Source("a", 2, 6);
    source.spare = 4;
    dispatcher.add(source);
    await source.until(() => source.open.length === 2);
    await turn();
    clock.advance(AHEAD_MS - 1);
    await turn();
    expect(source.released).toEqual([]);
    clock.advance(1);
    await source.until(() => source.released.length === 4);
    expect(source.released).toEqual([3, 4, 5, 6]);
    expect(source.open.map(({ work }) => work)).toEqual([1, 2]);
  });

  it("P16, P25: what stands ready is given back at once by a lane that may start nothing more, and at a stop", async () => {
    begin();
    const [paused, stopped] = [new Source("a", 1, 3), new Source("b", 1, 3)];
    for (const source of [paused, stopped]) source.spare = 2;
    const lane = dispatcher.add(paused);
    dispatcher.add(stopped);
    await paused.until(() => paused.open.length === 1);
    await stopped.until(() => stopped.open.length === 1);
    paused.limit = 0;
    paused.spare = 0;
    lane.wake();
    await turn();
    expect(paused.released).toEqual([2, 3]);
    expect(stopped.released).toEqual([]);
    const end = dispatcher.stop(1000);
    await stopped.until(() => stopped.released.length === 2);
    paused.open[0]?.end();
    stopped.open[0]?.end();
    await end;
    expect([...paused.released, ...stopped.released]).toEqual([2, 3, 2, 3]);
  });

  it("P13: work claimed while the limit shrank is given back, not started", async () => {
    begin();
    const source = new Source("a", 4, 4);
    let go: () => void = () => {};
    source.hold = new Promise((resolve) => {
      go = resolve;
    });
    dispatcher.add(source);
    await source.until(() => source.asked.length === 1);
    source.limit = 1;
    go();
    await source.until(() => source.released.length === 3);
    expect(source.open.map(({ work }) => work)).toEqual([1]);
    expect(source.released).toEqual([2, 3, 4]);
  });

  it("P24: a lane whose endpoint hangs delays no other lane", async () => {
    begin();
    const hanging = new Source("hanging", 2, 100);
    const healthy = new Source("healthy", 1, 20);
    dispatcher.add(hanging);
    dispatcher.add(healthy);
    for (let i = 0; i < 20; i++) {
      await healthy.until(() => healthy.open.length === 1);
      healthy.open[0]?.end();
    }
    expect(hanging.open).toHaveLength(2);
    expect(hanging.asked).toEqual([2]);
  });

  it("P24: ten thousand idle lanes wait for no instant, are asked nothing however long it lasts, and each is woken alone", async () => {
    begin();
    const sources = Array.from({ length: 10_000 }, (_, i) => new Source(String(i), 10, 0));
    const before = process.memoryUsage().heapUsed;
    let asked = 0;
    let most = 0;
    for (const source of sources) {
      source.hold = new Promise((resolve) => {
        source
          .until(() => source.asked.length > 0)
          .then(async () => {
            most = Math.max(most, ++asked);
            await turn();
            asked--;
            resolve();
          });
      });
    }
    const lanes = sources.map((source) => dispatcher.add(source));
    await dispatcher.rest();
    // They do not all ask at once.
    expect(most).toBe(256);
    for (let i = 0; i < 20; i++) {
      clock.advance(3_600_000);
      await turn();
    }
    expect(dispatcher.waiting).toBe(0);
    expect(sources.every((source) => source.asked.length === 1)).toBe(true);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * 1024 * 1024);
    const woken = sources[4711] as Source;
    woken.work.push(1);
    lanes[4711]?.wake();
    await woken.until(() => woken.open.length === 1);
    expect(sources.filter((source) => source.asked.length > 1)).toEqual([woken]);
  });

  it("P26: a lane looks again exactly when the store said that there would be more, by the injected clock", async () => {
    begin();
    const source = new Source("a", 1, 0);
    source.nextInMs = 5_000;
    dispatcher.add(source);
    await turn();
    clock.advance(4_999);
    await turn();
    expect(source.asked).toHaveLength(1);
    source.work.push(1);
    clock.advance(1);
    await source.until(() => source.open.length === 1);
    expect(source.asked).toHaveLength(2);
  });

  it("an event that comes while a claim is under way is not lost", async () => {
    begin();
    const source = new Source("a", 1, 0);
    let go: () => void = () => {};
    source.hold = new Promise((resolve) => {
      go = resolve;
    });
    const lane = dispatcher.add(source);
    await source.until(() => source.asked.length === 1);
    lane.wake();
    go();
    await source.until(() => source.asked.length === 2);
  });

  it("events that came for nothing don't make a lane wait when work comes", async () => {
    begin();
    const source = new Source("a", 1, 0);
    const lane = dispatcher.add(source);
    for (let i = 0; i < 10; i++) {
      await dispatcher.rest();
      lane.wake();
    }
    await dispatcher.rest();
    source.work.push(1);
    lane.wake();
    await source.until(() => source.open.length === 1);
  });

  it("an active lane looks again after half a minute even if its event was lost, and stops looking when nothing comes", async () => {
    begin();
    const source = new Source("a", 2, 1);
    dispatcher.add(source);
    await source.until(() => source.open.length === 1);
    source.open[0]?.end();
    await turn();
    source.work.push(2);
    clock.advance(30_000);
    await source.until(() => source.open.length === 1);
    source.open[0]?.end();
    for (let i = 0; i < 60; i++) {
      clock.advance(30_000);
      await turn();
    }
    expect(source.asked.length).toBeLessThan(16);
    expect(dispatcher.waiting).toBe(0);
  });

  it("CTRL-06: a store that fails is asked ever more rarely, and deliveries resume by themselves once it answers", async () => {
    begin();
    const source = new Source("a", 2, 2);
    source.failing = true;
    dispatcher.add(source);
    await source.until(() => source.asked.length === 1);
    await turn();
    for (let i = 0; i < 600; i++) {
      clock.advance(100);
      await turn();
    }
    // One minute: 0.1, 0.2 … 3.2 s, then every 5 s.
    expect(source.asked.length).toBeGreaterThan(10);
    expect(source.asked.length).toBeLessThan(20);
    expect(errors).toHaveLength(1);
    source.failing = false;
    clock.advance(5_000);
    await source.until(() => source.open.length === 2);
  });

  it("a store that answers nothing and 'now' again and again is not asked in a circle", async () => {
    begin();
    const source = new Source("a", 1, 0);
    source.nextInMs = 0;
    dispatcher.add(source);
    for (let i = 0; i < 50; i++) await turn();
    expect(source.asked.length).toBeLessThan(5);
    for (let i = 0; i < 60; i++) {
      clock.advance(1000);
      await turn();
    }
    expect(source.asked.length).toBeLessThan(80);
  });

  it("a lane that was answered nothing again and again looks at once when something becomes ready, and not before", async () => {
    begin();
    const source = new Source("a", 1, 0);
    source.nextInMs = 0;
    const lane = dispatcher.add(source);
    for (let i = 0; i < 50; i++) await turn();
    const before = source.asked.length;
    source.work.push(1);
    lane.wake(5_000);
    for (let i = 0; i < 5; i++) await turn();
    expect([source.asked.length, source.open.length]).toEqual([before, 0]);
    lane.wake();
    await source.until(() => source.open.length === 1);
    expect(source.asked.length).toBe(before + 1);
  });

  it("P25, CTRL-08: a stop claims nothing more, lets open deliveries end, and answers as soon as they have", async () => {
    begin();
    const source = new Source("a", 2, 10);
    dispatcher.add(source);
    await source.until(() => source.open.length === 2);
    let stopped = false;
    const stop = dispatcher.stop(30_000).then(() => {
      stopped = true;
    });
    source.open[0]?.end();
    await turn();
    expect([stopped, source.asked]).toEqual([false, [2]]);
    expect(source.open[0]?.opened.signal.aborted).toBe(false);
    source.open[0]?.end();
    await stop;
    expect(source.asked).toEqual([2]);
  });

  it("P25, CTRL-08: what is open at the end of the grace time is aborted; what a claim brings during the stop is given back", async () => {
    begin();
    const source = new Source("a", 1, 1);
    const late = new Source("late", 1, 1);
    let go: () => void = () => {};
    late.hold = new Promise((resolve) => {
      go = resolve;
    });
    dispatcher.add(source);
    dispatcher.add(late);
    await source.until(() => source.open.length === 1);
    const [delivery] = source.open;
    const stop = dispatcher.stop(30_000);
    go();
    await late.until(() => late.released.length === 1);
    clock.advance(30_000);
    await stop;
    expect(delivery?.opened.signal.aborted).toBe(true);
    expect(late.open).toEqual([]);
  });

  it("P16: a closed lane starts nothing more and answers once what was open is settled", async () => {
    begin();
    const source = new Source("a", 2, 10);
    const lane = dispatcher.add(source);
    await source.until(() => source.open.length === 2);
    const closed = lane.close();
    source.open[0]?.end();
    source.open[0]?.end();
    await closed;
    lane.wake();
    await turn();
    expect(source.asked).toEqual([2]);
  });
});
