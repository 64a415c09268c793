import { request } from "node:http";
import { afterEach, expect, it } from "vitest";
import { type Receiver, type ReceiverOptions, receiver, resolver } from "./index.ts";

const endpoints: Receiver[] = [];
const start = async (options?: ReceiverOptions): Promise<Receiver> => {
  const made = await receiver(options);
  endpoints.push(made);
  return made;
};
afterEach(() => Promise.all(endpoints.splice(0).map((endpoint) => endpoint.close())));

it("a receiver keeps bytes, headers and order, and answers as told", async () => {
  const endpoint = await start({
    answer: (got) => ({ status: got.order === 1 ? 200 : 503, headers: { "retry-after": "7" }, body: "said" }),
  });
  const bytes = Uint8Array.of(0, 255, 10, 13);
  const first = await fetch(`${endpoint.url}/a?b=1`, { method: "POST", body: bytes, headers: { "X-Mixed": "Case" } });
  const second = await fetch(endpoint.url, { method: "POST" });
  expect([first.status, await first.text(), second.status, second.headers.get("retry-after")]).toEqual([200, "said", 503, "7"]);
  const got = await endpoint.next();
  expect([got.path, [...got.body], got.headers["x-mixed"]]).toEqual(["/a?b=1", [...bytes], "Case"]);
  expect((await endpoint.next()).order).toBe(2);
});

it("a receiver holds answers until told and counts how many were open at once", async () => {
  let release = (): void => {};
  const after = new Promise<void>((resolve) => {
    release = resolve;
  });
  const endpoint = await start({ answer: { after } });
  const calls = [1, 2, 3].map(() => fetch(endpoint.url, { method: "POST", body: "x" }));
  await endpoint.opened(3);
  release();
  await Promise.all(calls);
  await endpoint.idle();
  await fetch(endpoint.url);
  expect([endpoint.highWater, endpoint.open, endpoint.requests.length]).toEqual([3, 0, 4]);
});

it("a receiver cuts connections before and inside the answer", async () => {
  const endpoint = await start({ answer: { drop: "request" } });
  await expect(fetch(endpoint.url)).rejects.toThrow();
  endpoint.answer({ drop: "body", body: "half of this" });
  const answer = await fetch(endpoint.url);
  await expect(answer.text()).rejects.toThrow();
  expect(await endpoint.requests[0]?.done).toBe(false);
});

it("a receiver drips a body and pads one", async () => {
  const endpoint = await start();
  endpoint.answer({ body: "slow", drip: { next: async () => {} } });
  expect(await (await fetch(endpoint.url)).text()).toBe("slow");
  endpoint.answer({ body: "{}", hugeBytes: 3_000_000 });
  expect((await (await fetch(endpoint.url)).text()).length).toBe(3_000_002);
});

it("a body that never arrived whole is not a request", async () => {
  const endpoint = await start();
  const call = request({ port: endpoint.port, host: "127.0.0.1", method: "POST", headers: { "content-length": "10" } });
  call.on("error", () => {});
  call.write("half");
  await endpoint.opened(1);
  call.destroy();
  await endpoint.idle();
  expect(endpoint.requests).toEqual([]);
});

it("a resolver answers from its table, may change its mind, and knows nothing else", async () => {
  let turn = 0;
  const resolve = resolver({
    "hooks.example.com": ["127.0.0.1", "::1"],
    "rebinding.example.com": () => (turn++ === 0 ? "203.0.113.7" : "127.0.0.1"),
  });
  expect(await resolve("hooks.example.com")).toEqual([
    { address: "127.0.0.1", family: 4 },
    { address: "::1", family: 6 },
  ]);
  expect([(await resolve("rebinding.example.com"))[0]?.address, (await resolve("rebinding.example.com"))[0]?.address]).toEqual([
    "203.0.113.7",
    "127.0.0.1",
  ]);
  await expect(resolve("constructor")).rejects.toMatchObject({ code: "ENOTFOUND" });
  expect(resolve.asked.length).toBe(4);
});
