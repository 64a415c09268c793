import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readPushAnswer } from "@millrace/contract/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answerBody, createRoom, maxAnswerBytes } from "./answer-body.ts";
import { attempts, host, request } from "./loopback.suite.ts";

/** An endpoint in a process of its own, so that its memory is not ours: 1 GiB of `{"failed":["…` for every request. */
const endless = `
  const chunk = Buffer.alloc(65536, "é");
  require("node:http").createServer((request, response) => {
    request.resume();
    response.on("error", () => {});
    const [, status, length] = request.url.split("/");
    response.writeHead(Number(status), length === "long" ? { "content-length": String(2 ** 30) } : {});
    if (length === "small") return response.end("ok");
    response.write('{"failed":["');
    const go = () => { while (!response.destroyed && response.write(chunk)); };
    response.on("drain", go);
    go();
  }).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
`;
let server: ChildProcess;
let port: number;

beforeAll(async () => {
  server = spawn(process.execPath, ["-e", endless], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(server.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
  port = Number(line.toString());
});
afterAll(() => {
  server.kill();
});

describe("huge answers", () => {
  it("ANS-03, P9: a hundred answers of 1 GiB at a time end at the cap, acknowledge if they are 2xx, and cost under 50 MiB", async () => {
    const tries = attempts();
    const paths = ["200/long", "200/chunked", "500/long", "500/chunked"];
    const run = (count: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const result = await tries.attempt(request(`http://${host}:${port}/${paths[i % 4]}`));
          if (result.kind !== "answer") expect.fail(JSON.stringify(result));
          expect(result.truncated).toBe(true);
          const reading = readPushAnswer(result, ["é"], { nowMs: 0, maxDelayMs: 1000 });
          expect(reading.ok).toBe(result.status === 200);
          expect(reading.outcomes[0]?.kind).toBe(result.status === 200 ? "ack" : "retry");
          if (result.status === 500) {
            expect(reading.error?.length).toBeLessThanOrEqual(200);
            expect(reading.error).toMatch(/^HTTP 500: \{"failed":\["é+$/);
          }
        }),
      );
    // As a server that has been delivering batches of 10 KB for a while: its memory has the size it works with.
    for (let i = 0; i < 80; i++) {
      const body = () => new Uint8Array(12_000);
      await Promise.all(Array.from({ length: 100 }, () => tries.attempt(request(`http://${host}:${port}/200/small`, { body: body() }))));
    }
    await run(8);
    const before = process.memoryUsage.rss();
    let most = before;
    const sampling = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss());
    }, 2);
    await run(100);
    await run(100);
    clearInterval(sampling);
    most = Math.max(most, process.memoryUsage.rss());
    expect((most - before) / 2 ** 20).toBeLessThan(50);
    tries.close();
  });
});

describe("the room for large bodies", () => {
  const body = (room = createRoom(2), whole = true) => {
    const calls: string[] = [];
    return { calls, it: answerBody(room, whole, { pause: () => calls.push("pause"), resume: () => calls.push("resume") }) };
  };
  const chunk = new Uint8Array(50_000).fill(7);

  it("P9: exactly 1 MiB is complete, one byte more is over the limit", () => {
    const { it: one } = body();
    expect(one.add(new Uint8Array(maxAnswerBytes).fill(1))).toBe(true);
    expect([one.take().length, one.truncated]).toEqual([maxAnswerBytes, false]);
    const { it: other } = body();
    expect(other.add(new Uint8Array(maxAnswerBytes))).toBe(true);
    expect(other.add(new Uint8Array(1))).toBe(false);
    expect([other.take().length, other.truncated]).toEqual([16_384, true]);
  });

  it("P9: what is not a 2xx keeps its first 16 KiB without asking for room", () => {
    const { it: one, calls } = body(createRoom(0), false);
    for (let i = 0; i < 10; i++) expect(one.add(chunk)).toBe(true);
    expect([one.take().length, one.truncated, calls.length]).toEqual([16_384, true, 0]);
  });

  it("ANS-03: a body that finds no room stops reading until another one ends, and loses nothing", () => {
    const room = createRoom(1);
    const first = body(room);
    const second = body(room);
    for (const { it: each } of [first, second]) for (let i = 0; i < 2; i++) each.add(chunk);
    expect([first.calls, second.calls]).toEqual([[], ["pause"]]);
    second.it.add(chunk);
    first.it.close();
    expect(second.calls.at(-1)).toBe("resume");
    second.it.add(chunk);
    expect(Buffer.from(second.it.take()).equals(new Uint8Array(200_000).fill(7))).toBe(true);
    second.it.close();
    expect(room.enter(() => {})).toBeDefined();
  });

  it("ANS-03: a body that ends while it waits leaves the line", () => {
    const room = createRoom(1);
    const [first, second, third] = [body(room), body(room), body(room)];
    for (const { it: each } of [first, second, third]) for (let i = 0; i < 2; i++) each.add(chunk);
    second.it.close();
    first.it.close();
    expect([second.calls, third.calls]).toEqual([["pause"], ["pause", "resume"]]);
  });
});
