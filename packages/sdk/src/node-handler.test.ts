import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, request } from "node:http";
import type { AddressInfo } from "node:net";
import Fastify from "fastify";
import { afterEach, expect, it, vi } from "vitest";
import { delivered, type Shape, secret } from "./delivery.fixture.ts";
import { type MessageHandler, queue, RetryLaterError, toNodeHandler } from "./index.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closers.splice(0)) await close();
});

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/queues/emails?x=1`;
}

/** A promise and how to resolve it. */
function event(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

const deliver = (url: string, shape: Shape = {}) => {
  const { headers, body } = delivered(shape);
  return fetch(url, { method: "POST", headers, body: Uint8Array.from(body) });
};
const emails = <T>(fn: MessageHandler<T>) => toNodeHandler(queue<T>("emails", { signingSecret: secret }).handler(fn));

it("C12: serves node:http: genuine deliveries of any bytes arrive, others are refused, and outcomes are answers", async () => {
  const seen: unknown[] = [];
  const url = await listen(
    emails((payload, { attempt }) => {
      seen.push(payload);
      if (attempt === 2) throw new RetryLaterError("1m");
      if (attempt === 3) throw new Error("down");
    }),
  );
  for (const body of ["", "é😀\n", "x".repeat(1_000_000)]) {
    expect((await deliver(url, { body, contentType: "text/plain" })).status).toBe(204);
    expect(seen.pop()).toBe(body);
  }
  const later = await deliver(url, { attempt: 2 });
  expect([later.status, later.headers.get("x-gigadrive-queue-retry-after")]).toEqual([204, "60"]);
  const failed = await deliver(url, { attempt: 3 });
  expect([failed.status, await failed.text()]).toEqual([500, "down\n"]);
  expect((await deliver(url, { secret: `${secret.slice(0, -1)}E` })).status).toBe(401);
  expect((await fetch(url)).status).toBe(401);
  expect((await fetch(url, { method: "POST", body: new Uint8Array(3 * 1024 * 1024) })).status).toBe(401);
});

it("C12: a chunked body of any length is answered and never kept whole", async () => {
  const url = await listen(emails(() => {}));
  const { headers } = delivered();
  const outgoing = request(url, { method: "POST", headers });
  const answered = once(outgoing, "response") as Promise<[IncomingMessage]>;
  for (let i = 0; i < 5; i += 1) outgoing.write(Buffer.alloc(1024 * 1024));
  outgoing.end();
  const [answer] = await answered;
  expect(answer.statusCode).toBe(401);
});

it("C12: a framework that kept the raw bytes serves as well; one that parsed them away is told what to do", async () => {
  const handler = emails((payload) => expect(payload).toEqual({ to: "me" }));
  const read = async (incoming: IncomingMessage): Promise<Buffer> => Buffer.concat(await incoming.toArray());
  const raw = await listen(async (incoming, response) => handler(Object.assign(incoming, { body: await read(incoming) }), response));
  const kept = await listen(async (incoming, response) => {
    const rawBody = await read(incoming);
    await handler(Object.assign(incoming, { rawBody, body: JSON.parse(String(rawBody)) as unknown }), response);
  });
  for (const url of [raw, kept]) expect((await deliver(url, { body: '{"to":"me"}' })).status).toBe(204);

  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const parsed = await listen(async (incoming, response) => {
    await handler(Object.assign(incoming, { body: JSON.parse(String(await read(incoming))) as unknown }), response);
  });
  expect((await deliver(parsed, { body: '{"to":"me"}' })).status).toBe(500);
  expect(log.mock.calls[0]?.[0]).toContain("Mount this route ahead of body parsers");
});

it("C12: serves Fastify, whose parser is told to leave bytes alone", async () => {
  const app = Fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  const seen: unknown[] = [];
  app.post(
    "/api/queues/emails",
    emails((payload) => seen.push(payload)),
  );
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  closers.push(() => app.close());
  const url = `${origin}/api/queues/emails`;
  expect((await deliver(url, { body: '{"to":"me"}' })).status).toBe(204);
  expect((await deliver(url, { body: "", contentType: null })).status).toBe(204);
  expect((await deliver(url, { secret: `${secret.slice(0, -1)}E` })).status).toBe(401);
  expect(seen).toEqual([{ to: "me" }, ""]);
});

it("C12, SDK-01: a handler that outlasts its delivery is told that the caller has hung up, and its end is nobody's trouble", async () => {
  const begun = event();
  const told = event();
  const url = await listen(
    emails(async (_payload, { signal }) => {
      signal.addEventListener("abort", () => told.resolve());
      begun.resolve();
      await told.promise;
    }),
  );
  const { headers, body } = delivered();
  const outgoing = request(url, { method: "POST", headers });
  outgoing.on("error", () => {});
  outgoing.end(body);
  await begun.promise;
  outgoing.destroy();
  await told.promise;
  // The next one is served as ever.
  expect((await deliver(url)).status).toBe(204);
});
