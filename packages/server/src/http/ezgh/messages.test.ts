import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, openDoor } from "../door.suite.ts";

let door: Door;
/** Resolves whenever the server has seen the end of every connection that was cut. */
let open = 0;
let quiet: () => void = () => undefined;
beforeAll(async () => {
  door = await openDoor("sqlite");
  door.app.server.on("connection", (socket: Socket) => {
    open += 1;
    socket.once("close", () => {
      open -= 1;
      quiet();
    });
  });
});
afterAll(() => door.close());

/** Writes a request, all of it or its beginning, and cuts the connection right after. */
async function cut(path: string, body: string, written = body.length): Promise<void> {
  const socket = connect(door.port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const head = [
    `POST /v1/organizations/acme/projects/shop/queues/${path} HTTP/1.1`,
    "host: localhost",
    `authorization: Bearer ${door.apiKey}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  await new Promise((resolve) => socket.write(`${head.join("\r\n")}\r\n\r\n${body.slice(0, written)}`, resolve));
  socket.destroy();
}

const queue = async (name: string) => {
  await door.shop("/queues", { json: { name, visibilityTimeoutSeconds: 60 } });
  return {
    stats: async () => (await door.shop(`/queues/${name}/stats`)).json,
    send: (bodies: string[]) => door.shop(`/queues/${name}/messages`, { json: { messages: bodies.map((body) => ({ body })) } }),
    receive: async (json: object) => (await door.shop(`/queues/${name}/messages/receive`, { json })).json.messages,
  };
};

/** Every cut connection is gone on the server's side; those of the test's own client stay. */
async function allCut(kept: number): Promise<void> {
  while (open > kept)
    await new Promise<void>((resolve) => {
      quiet = resolve;
    });
}

describe("clients that vanish in the middle of a request", () => {
  it("STORE-11: sends cut in or right after their body are stored whole or not at all", async () => {
    const { stats } = await queue("uploads");
    const kept = open;
    const body = JSON.stringify({ messages: Array.from({ length: 10 }, (_, i) => ({ body: `${i}`.padEnd(500, "x") })) });
    for (let i = 0; i < 400; i++) await cut("uploads/messages", body, i % 2 === 0 ? Math.floor((body.length * i) / 400) : body.length);
    await allCut(kept);
    const counted = await stats();
    expect(counted.ready % 10).toBe(0);
    expect(counted.ready).toBeLessThanOrEqual(2000);
    expect(counted).toMatchObject({ sent: counted.ready, scheduled: 0, waiting: 0, inflight: 0 });
  });

  it("STORE-11: long polls cut while they wait leave nothing leased and nobody in line", async () => {
    const { send, receive, stats } = await queue("polls");
    const kept = open;
    for (let i = 0; i < 300; i++) await cut("polls/messages/receive", JSON.stringify({ waitSeconds: 20 }));
    await allCut(kept);
    await send(["only"]);
    const [got] = await receive({ waitSeconds: 20 });
    expect(got).toMatchObject({ body: "only", receiveCount: 1 });
    expect(await stats()).toMatchObject({ ready: 0, inflight: 1 });
  });

  it("STORE-11: acknowledgements cut right after their body count whole or not at all, and every message is somewhere", async () => {
    const { send, receive, stats } = await queue("acks");
    let acked = 0;
    for (let i = 0; i < 300; i++) {
      await send(Array.from({ length: 3 }, (_, j) => `${i}-${j}`));
      const messages = await receive({ maxMessages: 3 });
      expect(messages).toHaveLength(3);
      const kept = open;
      await cut("acks/messages/ack", JSON.stringify({ receipts: messages.map(({ receipt }: { receipt: string }) => receipt) }));
      await allCut(kept);
      const counted = await stats();
      expect((counted.acknowledged - acked) % 3).toBe(0);
      acked = counted.acknowledged;
    }
    const counted = await stats();
    expect(counted.acknowledged + counted.inflight).toBe(900);
    expect(counted).toMatchObject({ sent: 900, ready: 0, scheduled: 0, waiting: 0 });
    door.clock.advance(60_000);
    let left = 0;
    for (;;) {
      const messages = await receive({ maxMessages: 10 });
      if (messages.length === 0) break;
      left += messages.length;
    }
    expect(left).toBe(counted.inflight);
    expect(door.logged).toEqual([]);
  });
});
