import { once } from "node:events";
import type { ClientRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, openDoor } from "./door.suite.ts";
import type { Call } from "./handler.ts";

let door: Door;
/** What the next receive does once its handler has an answer, or is about to ask for one. */
let beforeAnswer: ((call: Call) => Promise<void>) | undefined;
let whileWaiting: ((call: Call) => void) | undefined;
beforeAll(async () => {
  door = await openDoor("sqlite", {
    handlers: (real) => ({
      async ReceiveMessages(call, input) {
        whileWaiting?.(call);
        const answer = await real.ReceiveMessages(call, input);
        await beforeAnswer?.(call);
        return answer;
      },
    }),
  });
  await door.shop("/queues", { json: { name: "q", redrivePolicy: null } });
});
afterAll(() => door.close());

const receive = (json: object) => door.shop("/queues/q/messages/receive", { json });
const startReceive = (json: object): ClientRequest => {
  const sent = door.open("/v1/organizations/acme/projects/shop/queues/q/messages/receive", { json });
  sent.on("error", () => {});
  return sent;
};
const aborted = (call: Call): Promise<void> =>
  call.gone.aborted ? Promise.resolve() : new Promise((resolve) => call.gone.addEventListener("abort", () => resolve(), { once: true }));

describe("answers that nobody gets", () => {
  it("Q17: a lease whose socket closed before the answer was written is released, and a waiting receive gets the message", async () => {
    await door.shop("/queues/q/messages", { json: { messages: [{ body: "a" }] } });
    const lost = new Promise<void>((resolve) => {
      beforeAnswer = async (call) => {
        beforeAnswer = undefined;
        sent.destroy();
        await aborted(call);
        resolve();
      };
    });
    const sent = startReceive({});
    await lost;
    const next = await receive({ waitSeconds: 20 });
    expect(next.json.messages).toHaveLength(1);
    const peeked = await door.shop("/queues/q/messages?state=inflight");
    expect(peeked.json.messages[0]).toMatchObject({ receiveCount: 2, attempts: 1 });
    await door.shop("/queues/q/messages/ack", { json: { receipts: [next.json.messages[0].receipt] } });
  });

  it("Q17: a client that hangs up while it waits leases nothing", async () => {
    const hungUp = new Promise<void>((resolve) => {
      whileWaiting = (call) => {
        whileWaiting = undefined;
        void aborted(call).then(resolve);
        sent.destroy();
      };
    });
    const sent = startReceive({ waitSeconds: 20 });
    await hungUp;
    await door.shop("/queues/q/messages", { json: { messages: [{ body: "b" }] } });
    const next = await receive({});
    expect(next.json.messages[0]).toMatchObject({ body: "b", receiveCount: 1 });
    await door.shop("/queues/q/messages/ack", { json: { receipts: [next.json.messages[0].receipt] } });
  });

  it("Q17: an answer that was written is never taken back, also when the client leaves right after", async () => {
    await door.shop("/queues/q/messages", { json: { messages: [{ body: "c" }] } });
    const sent = startReceive({});
    const [response] = await once(sent, "response");
    response.resume();
    await once(response, "end");
    sent.destroy();
    expect((await receive({})).json.messages).toEqual([]);
    expect((await door.shop("/queues/q/stats")).json).toMatchObject({ inflight: 1, ready: 0 });
  });
});
