import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type TcpProxy, tcpProxy } from "./tcp-proxy.ts";

let proxy: TcpProxy;
let close: () => Promise<void>;
beforeEach(async () => {
  // Says back what it hears.
  const echo = createServer((socket) => socket.on("error", () => {}).pipe(socket)).listen(0, "127.0.0.1");
  await once(echo, "listening");
  const { port } = echo.address() as { port: number };
  proxy = await tcpProxy(port);
  close = async () => {
    await proxy.close();
    await new Promise((resolve) => echo.close(resolve));
  };
});
afterEach(() => close());

async function open(): Promise<Socket> {
  const socket = connect(proxy.port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}
async function echoed(socket: Socket, text: string): Promise<string> {
  const heard = once(socket, "data");
  socket.write(text);
  return String((await heard)[0]);
}

it("passes on what is said, later when told to", async () => {
  const socket = await open();
  expect(await echoed(socket, "hello")).toBe("hello");
  proxy.delay(40);
  const from = performance.now();
  expect(await echoed(socket, "again")).toBe("again");
  expect(performance.now() - from).toBeGreaterThanOrEqual(75);
});

it("cuts a connection before a text reaches the client, and after a number of bytes", async () => {
  const first = await open();
  expect(await echoed(first, "in the ")).toBe("in the ");
  const cut = proxy.cutBefore("middle");
  let heard = "";
  first.on("data", (chunk) => {
    heard += String(chunk);
  });
  const closed = once(first, "close");
  first.write("mid");
  first.write("dle");
  await cut;
  await closed;
  expect(heard).not.toContain("dle");

  const second = await open();
  expect(await echoed(second, "12345")).toBe("12345");
  const ended = once(second, "close");
  const after = proxy.cutAfterBytes(3);
  second.write("678");
  await after;
  await ended;
});

it("swallows everything in a black hole, and cuts what was swallowed when it is healed", async () => {
  const socket = await open();
  expect(await echoed(socket, "a")).toBe("a");
  proxy.blackHole();
  socket.write("b");
  const also = await open();
  const closed = Promise.all([once(socket, "close"), once(also, "close")]);
  socket.on("data", () => expect.fail("a black hole answered"));
  proxy.heal();
  await closed;
  expect(await echoed(await open(), "c")).toBe("c");
});

it("refuses connections until it is healed", async () => {
  const socket = await open();
  expect(await echoed(socket, "a")).toBe("a");
  const closed = once(socket, "close");
  proxy.refuse();
  await closed;
  const refused = await open();
  await once(refused, "close");
  proxy.heal();
  expect(await echoed(await open(), "b")).toBe("b");
});
