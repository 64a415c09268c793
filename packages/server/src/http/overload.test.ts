import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, openDoor } from "./door.suite.ts";
import { createLoad } from "./load.ts";

let door: Door;
let memoryBytes = 0;
let elapsed = 0;
let release: () => void = () => {};
let entered: () => void = () => {};
const load = createLoad({
  memoryCapBytes: 1000,
  vitals: { read: () => ({ memoryBytes, loopDelayMs: 0 }), close: () => {} },
  elapsed: () => elapsed,
});
beforeAll(async () => {
  door = await openDoor("sqlite", {
    load,
    handlers: (real) => ({
      async GetQueue(call, input) {
        entered();
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        return real.GetQueue(call, input);
      },
    }),
  });
  await door.shop("/queues", { json: { name: "q" } });
});
afterAll(() => door.close());

describe("overload", () => {
  it("A4: while memory is short new requests get 503 with Retry-After, those in flight complete, probes answer; then all is well", async () => {
    const inside = new Promise<void>((resolve) => {
      entered = resolve;
    });
    const inFlight = door.shop("/queues/q");
    await inside;
    memoryBytes = 950;
    elapsed += 1000;
    const refused = await door.shop("/queues");
    expect([refused.status, refused.json.error.code, refused.headers["retry-after"]]).toEqual([503, "overloaded", "1"]);
    expect((await door.request("/healthz")).status).toBe(200);
    release();
    expect((await inFlight).status).toBe(200);
    memoryBytes = 0;
    elapsed += 1000;
    expect((await door.shop("/queues")).status).toBe(200);
  });

  it("A4: body bytes are counted out again after answers, refusals and cut connections alike", async () => {
    const raw = JSON.stringify({ name: "x".repeat(100) });
    await door.shop("/queues", { raw });
    await door.shop("/queues", { raw: raw.slice(1) });
    await door.shop("/queues", { raw, key: null });
    expect(load.bytes).toBe(0);
    const large = await door.shop("/queues/q/messages", { raw: `{"messages":[{"body":"${"x".repeat(600)}"}]}` });
    expect(large.status).toBe(200);
    expect(load.bytes).toBe(0);
  });
});
