import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import fastify from "fastify";
import { expect, it } from "vitest";
import { type After, closeApp } from "./close.ts";

it("P25, A4: a client that never finishes its request holds up a stop for the grace time and no longer; an answer under way is finished", async () => {
  const app = fastify({ forceCloseConnections: "idle" });
  let finish: () => void = () => {};
  const begun = new Promise<void>((resolve) => {
    app.get("/slow", async () => {
      resolve();
      await new Promise<void>((done) => {
        finish = done;
      });
      return "whole";
    });
  });
  app.post("/", async () => "never");
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const answered = fetch(`http://127.0.0.1:${port}/slow`).then((response) => response.text());
  await begun;
  const slow = connect(port, "127.0.0.1");
  slow.on("error", () => {});
  slow.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
  await once(app.server, "request");

  let cut: (() => void) | undefined;
  const after: After = (ms, call) => {
    expect(ms).toBe(30_000);
    cut = call;
    return () => {};
  };
  let closed = false;
  const closing = closeApp(app, 30_000, after).then(() => {
    closed = true;
  });
  finish();
  expect(await answered).toBe("whole");
  expect(closed).toBe(false);
  const gone = once(slow, "close");
  cut?.();
  await Promise.all([closing, gone]);
  expect(closed).toBe(true);
});
