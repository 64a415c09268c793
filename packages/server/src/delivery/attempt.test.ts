import { gzipSync } from "node:zlib";
import { type Receiver, receiver, resolver } from "@millrace/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { attempts, authority, handDeadline, host, loopback, type RawEndpoint, rawEndpoint, request } from "./loopback.suite.ts";
import type { DeliveryResult } from "./types.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
function keep<T extends { close(): unknown }>(it: T): T {
  closing.push(() => it.close());
  return it;
}
const serve = async (given: Parameters<typeof receiver>[0] = {}): Promise<Receiver> => keep(await receiver(given));
const raw = async (...given: Parameters<typeof rawEndpoint>): Promise<RawEndpoint> => keep(await rawEndpoint(...given));
const secure = () => authority.issue(host);
const text = (result: DeliveryResult): string =>
  result.kind === "answer" ? Buffer.from(result.body).toString() : `${result.class}: ${result.message}`;

describe("one request", () => {
  it("P20, P22, SIG-01: goes out over TLS with SNI and Host of the name, the headers given and nothing that invites compression", async () => {
    const endpoint = await serve({ tls: secure(), answer: { status: 202, headers: { "x-odd": "1" }, body: "fine" } });
    const { attempt } = keep(attempts());
    const body = new TextEncoder().encode("héllo 🎉");
    const result = await attempt(
      request(`https://${host}:${endpoint.port}/q/orders?x=%20`, { headers: { "ezgh-delivery-id": "d-1" }, body }),
    );
    expect(result).toMatchObject({ kind: "answer", status: 202, truncated: false, headers: { "x-odd": "1" } });
    expect(text(result)).toBe("fine");
    const seen = await endpoint.next();
    expect(seen).toMatchObject({ method: "POST", path: "/q/orders?x=%20" });
    expect([...seen.body]).toEqual([...body]);
    expect(seen.headers).toEqual({
      host: `${host}:${endpoint.port}`,
      connection: "keep-alive",
      "ezgh-delivery-id": "d-1",
      "content-length": String(body.length),
    });
  });

  it("SIG-02: a body of zero bytes goes out with its length", async () => {
    const endpoint = await serve();
    const { attempt } = keep(attempts());
    await attempt(request(`http://${host}:${endpoint.port}/`, { body: new Uint8Array(0) }));
    expect((await endpoint.next()).headers["content-length"]).toBe("0");
  });

  it("SSRF-02: a trailing dot of the target is in neither Host nor SNI, and the certificate fits", async () => {
    const endpoint = await serve({ tls: secure() });
    const { attempt } = keep(attempts());
    expect(await attempt(request(`https://${host}.:${endpoint.port}/`))).toMatchObject({ kind: "answer", status: 200 });
    expect((await endpoint.next()).headers.host).toBe(`${host}:${endpoint.port}`);
  });

  it("ANS-09: a redirect is the answer: its Location is neither requested nor resolved", async () => {
    const inner = await serve();
    const names = resolver({ [host]: "127.0.0.1", "elsewhere.example": "127.0.0.1" });
    const { attempt } = keep(attempts({ resolve: names }));
    for (const status of [301, 302, 303, 307, 308]) {
      for (const location of [
        `http://elsewhere.example:${inner.port}/`,
        `http://127.0.0.1:${inner.port}/`,
        "http://169.254.169.254/latest",
        "/",
      ]) {
        const endpoint = await serve({ tls: secure(), answer: { status, headers: { location } } });
        expect(await attempt(request(`https://${host}:${endpoint.port}/`))).toMatchObject({ kind: "answer", status });
        expect(endpoint.requests.length).toBe(1);
        await endpoint.close();
        closing.pop();
      }
    }
    expect(inner.connections).toBe(0);
    expect(new Set(names.asked)).toEqual(new Set([host]));
  });

  it("ANS-05: no encoding is invited and none is undone: a bomb arrives as the bytes it is", async () => {
    const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024));
    const { attempt } = keep(attempts());
    for (const encoding of ["gzip", Array(10).fill("gzip").join(", "), "br", "unknown"]) {
      const endpoint = await serve({ answer: { body: bomb, headers: { "content-encoding": encoding } } });
      const result = await attempt(request(`http://${host}:${endpoint.port}/`));
      expect(result).toMatchObject({ kind: "answer", status: 200, truncated: false });
      if (result.kind === "answer") expect(Buffer.from(result.body).equals(Uint8Array.from(bomb))).toBe(true);
      expect((await endpoint.next()).headers).not.toHaveProperty("accept-encoding");
    }
  });
});

describe("odd answers", () => {
  const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const cases: [name: string, bytes: string[], expected: string][] = [
    ["a 100 before the answer", ["HTTP/1.1 100 Continue\r\n\r\n", ok], "200 ok"],
    [
      "many interim heads in pieces",
      [
        "HTTP/1.1 10",
        "0 Continue\r\nA: b\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHT",
        "TP/1.1 200 OK\r\nContent-Length: 2\r\n\r",
        "\nok",
      ],
      "200 ok",
    ],
    ["a 103 and the answer at once", [`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}`], "200 ok"],
    ["an unexpected 101", ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n"], "connection"],
    ["a 101 without an upgrade", ["HTTP/1.1 101 Switching Protocols\r\n\r\n"], "connection"],
    [
      "a 101 after a 100",
      ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n"],
      "connection",
    ],
    ["a 204", ["HTTP/1.1 204 No Content\r\n\r\n"], "204 "],
    ["a 204 that sends a body all the same", ["HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"], "204 "],
    ["an unknown status", ["HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"], "999 "],
    ["a status without a reason", ["HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"], "200 "],
    ["chunks", ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"], "200 hello!"],
    ["HTTP/1.0", ["HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"], "200 ok"],
  ];
  const ended: [name: string, bytes: string, expected: string][] = [
    ["a body that ends with the connection", 'HTTP/1.1 200 OK\r\n\r\n{"failed":[]}', '200 {"failed":[]}'],
    ["a body shorter than its length", 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"failed":["a', "connection"],
    ["chunks without an end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "connection"],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-Le", "connection"],
    ["nothing at all", "", "connection"],
    ["no HTTP", "hello", "connection"],
    ["an interim head and nothing else", "HTTP/1.1 100 Continue\r\n\r\n", "connection"],
    ["two different lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "connection"],
    ["a header of 20,000 bytes", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(20_000)}\r\nContent-Length: 0\r\n\r\n`, "connection"],
    ["an endless interim head", `HTTP/1.1 100 ${"a".repeat(40_000)}`, "connection"],
  ];
  const shown = (result: DeliveryResult): string => (result.kind === "answer" ? `${result.status} ${text(result)}` : result.class);

  for (const [name, pieces, expected] of cases) {
    it(`P9: ${name} gives ${expected.trim()}, and no socket or slot is lost`, async () => {
      const endpoint = await raw((socket) => {
        const next = (i: number): void => {
          if (i < pieces.length) socket.write(pieces[i] as string, () => setImmediate(next, i + 1));
        };
        next(0);
      });
      const tries = keep(attempts());
      for (let i = 0; i < 3; i++) expect(shown(await tries.attempt(request(`http://${host}:${endpoint.port}/`)))).toBe(expected);
      tries.close();
      await endpoint.idle();
      expect(tries.open).toBe(0);
    });
  }

  for (const [name, bytes, expected] of ended) {
    it(`P9: ${name} gives ${expected}`, async () => {
      const endpoint = await raw((socket) => socket.end(bytes));
      const { attempt } = keep(attempts());
      expect(shown(await attempt(request(`http://${host}:${endpoint.port}/`)))).toBe(expected);
    });
  }

  it("P9: a body without a length that a reset cuts off is a connection failure; one that ends with its connection is complete", async () => {
    const { attempt } = keep(attempts());
    const cut = await raw((socket) => {
      socket.pause().write("HTTP/1.1 200 OK\r\n\r\nhello", async () => {
        // A few turns of the loop, so that the answer is read before the reset comes.
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
        // Closing with bytes unread is a reset, without an end before it.
        socket.destroy();
      });
    });
    const body = new TextEncoder().encode(`PAYLOAD${"x".repeat(8 * 1024 * 1024)}`);
    expect(shown(await attempt(request(`http://${host}:${cut.port}/`, { body })))).toBe("connection");
    const whole = await raw((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nhello"));
    const result = await attempt(request(`http://${host}:${whole.port}/`));
    expect(result).toMatchObject({ kind: "answer", status: 200 });
    expect(text(result)).toBe("hello");
  });

  it("P9: a reset connection is a connection failure, and so is a port where nobody listens", async () => {
    const endpoint = await raw((socket) => socket.resetAndDestroy());
    const { attempt } = keep(attempts());
    expect(shown(await attempt(request(`http://${host}:${endpoint.port}/`)))).toBe("connection");
    const { port } = endpoint;
    await endpoint.close();
    closing.pop();
    closing.push(() => {});
    expect(text(await attempt(request(`http://${host}:${port}/`)))).toBe("connection: the endpoint refused the connection (ECONNREFUSED)");
  });
});

describe("the deadline", () => {
  const atDeadline = async (endpoint: { url: string; reached: Promise<unknown> }): Promise<DeliveryResult> => {
    const deadline = handDeadline();
    const tries = keep(attempts({ after: deadline.after }));
    const result = tries.attempt(request(endpoint.url, { timeoutMs: 1500 }));
    await endpoint.reached;
    deadline.fire();
    const ended = await result;
    expect(ended).toMatchObject({ kind: "failure", class: "timeout", message: "no complete answer within 1.5 s" });
    expect(deadline.waiting).toBe(0);
    return ended;
  };

  it("P9: covers an answer that never begins, and the connection is gone afterwards", async () => {
    let came = (): void => {};
    const reached = new Promise<void>((resolve) => {
      came = resolve;
    });
    const endpoint = await raw(() => came());
    await atDeadline({ url: `http://${host}:${endpoint.port}/`, reached });
    await endpoint.idle();
  });

  it("P9: covers a body that drips: every byte is progress, and none of it extends the time", async () => {
    let dripped = (): void => {};
    const reached = new Promise<void>((resolve) => {
      dripped = resolve;
    });
    const endpoint = await raw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
      let sent = 0;
      const drip = (): void => {
        if (socket.destroyed) return;
        if (++sent === 200) dripped();
        socket.write("x", () => setImmediate(drip));
      };
      drip();
    });
    await atDeadline({ url: `http://${host}:${endpoint.port}/`, reached });
    await endpoint.idle();
  });

  it("P9: covers a TLS handshake that never ends", async () => {
    let came = (): void => {};
    const reached = new Promise<void>((resolve) => {
      came = resolve;
    });
    const { createServer } = await import("node:net");
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => came());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => server.close());
    await atDeadline({ url: `https://${host}:${(server.address() as { port: number }).port}/`, reached });
  });

  it("P9: covers a name service that never answers; what it says later is not acted on", async () => {
    const deadline = handDeadline();
    const endpoint = await serve();
    let answer: (addresses: { address: string; family: 4 }[]) => void = () => {};
    const tries = keep(
      attempts({
        after: deadline.after,
        resolve: () =>
          new Promise((resolve) => {
            answer = resolve;
          }),
      }),
    );
    const result = tries.attempt(request(`http://${host}:${endpoint.port}/`));
    deadline.fire();
    expect(await result).toMatchObject({ class: "timeout" });
    answer([{ address: "127.0.0.1", family: 4 }]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(tries.open).toBe(0);
    expect(endpoint.connections).toBe(0);
  });

  it("P25: an aborted attempt is a connection failure and leaves no socket; after close nothing starts", async () => {
    const endpoint = await serve({ answer: { after: new Promise(() => {}) } });
    const tries = keep(attempts());
    const stop = new AbortController();
    const running = Array.from({ length: 5 }, () => tries.attempt(request(`http://${host}:${endpoint.port}/`), stop.signal));
    await endpoint.opened(5);
    stop.abort();
    for (const result of await Promise.all(running)) expect(result).toMatchObject({ kind: "failure", class: "connection" });
    await endpoint.idle();
    const another = tries.attempt(request(`http://${host}:${endpoint.port}/`));
    await endpoint.opened(1);
    tries.close();
    expect(await another).toMatchObject({ kind: "failure", class: "connection" });
    expect(await tries.attempt(request(`http://${host}:${endpoint.port}/`))).toMatchObject({ kind: "failure" });
    expect(await tries.attempt(request(`http://${host}:${endpoint.port}/`), stop.signal)).toMatchObject({ kind: "failure" });
  });
});

describe("connections", () => {
  it("P19: are kept alive, one look-up each, and made anew 30 s after their check", async () => {
    const endpoint = await serve({ tls: secure(), answer: { headers: { "keep-alive": "timeout=600" } } });
    const names = resolver({ [host]: "127.0.0.1" });
    let now = 0;
    const { attempt } = keep(attempts({ resolve: names, now: () => now }));
    const go = () => attempt(request(`https://${host}:${endpoint.port}/`));
    for (let i = 0; i < 5; i++) expect(await go()).toMatchObject({ status: 200 });
    now = 29_999;
    await go();
    expect([endpoint.connections, names.asked.length]).toEqual([1, 1]);
    now = 30_000;
    await go();
    expect([endpoint.connections, names.asked.length]).toEqual([2, 2]);
  });

  it("P22: one request at a time goes over a connection; as many are open as attempts", async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const endpoint = await serve({ answer: { after: gate } });
    const { attempt } = keep(attempts());
    const running = Array.from({ length: 20 }, () => attempt(request(`http://${host}:${endpoint.port}/`)));
    await endpoint.opened(20);
    expect(endpoint.connections).toBe(20);
    release();
    await Promise.all(running);
    await Promise.all(Array.from({ length: 20 }, () => attempt(request(`http://${host}:${endpoint.port}/`))));
    expect(endpoint.connections).toBe(20);
  });

  it("P22: a kept connection found closed before anything was written is dialled anew, and the request arrives once", async () => {
    const hungUp: Promise<void>[] = [];
    const endpoint = await raw((socket) => {
      hungUp.push(new Promise((resolve) => socket.once("finish", () => resolve())));
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
    });
    const { attempt } = keep(attempts());
    for (let i = 1; i <= 20; i++) {
      await Promise.all(hungUp);
      // One turn of the event loop, in which the end of the connection can be read.
      await new Promise((resolve) => setImmediate(resolve));
      expect(await attempt(request(`http://${host}:${endpoint.port}/`))).toMatchObject({ kind: "answer", status: 200 });
    }
    expect(endpoint.received.join("").split("PAYLOAD").length - 1).toBe(20);
  });

  it("P22: a kept connection that dies with the request on it is one failure: nothing is sent a second time", async () => {
    const endpoint = await raw((socket, nth) => {
      if (nth === 1) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      else socket.destroy();
    });
    const { attempt } = keep(attempts());
    expect(await attempt(request(`http://${host}:${endpoint.port}/`))).toMatchObject({ status: 200 });
    expect(await attempt(request(`http://${host}:${endpoint.port}/`))).toMatchObject({ kind: "failure", class: "connection" });
    expect(endpoint.connections).toBe(1);
    expect(endpoint.received[0]?.split("PAYLOAD").length).toBe(3);
  });

  it("P22: bytes that come unasked on a kept connection never answer the next request", async () => {
    const endpoint = await raw((socket, nth) => {
      const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      socket.write(nth === 1 && endpoint.connections === 1 ? answer("one") + answer("forged") : answer("two"));
    });
    const { attempt } = keep(attempts());
    const first = await attempt(request(`http://${host}:${endpoint.port}/`));
    const second = await attempt(request(`http://${host}:${endpoint.port}/`));
    expect([text(first), text(second)]).not.toContain("forged");
  });
});

describe("large answers", () => {
  it("ANS-03, P22: one that was complete before there was room for it holds up no later request", async () => {
    const waiting: (() => void)[] = [];
    const endpoint = await raw((socket) => {
      const large = "a".repeat(20_000);
      // Eight answers have all the room there is until the test lets them go on.
      if (waiting.length === 8) socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n${large}`);
      else {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 20001\r\n\r\n${large}`);
        waiting.push(() => socket.write("a"));
      }
    });
    const { attempt } = keep(attempts());
    const go = () => attempt(request(`http://${host}:${endpoint.port}/`));
    const held = Array.from({ length: 8 }, go);
    while (waiting.length < 8) await new Promise((resolve) => setImmediate(resolve));
    for (let i = 0; i < 3; i++) expect(await go()).toMatchObject({ status: 200, truncated: false });
    for (const end of waiting) end();
    for (const result of await Promise.all(held)) expect(result).toMatchObject({ status: 200, truncated: false });
  });
});

describe("several addresses", () => {
  it("P19: of the checked addresses one that answers is found, over http and TLS; when none does it is a connection failure", async () => {
    // Nobody listens on loopback's third address.
    const resolve = resolver({ [host]: ["127.0.0.3", "127.0.0.1"] });
    const { attempt } = keep(attempts({ resolve }));
    for (const endpoint of [await serve(), await serve({ tls: secure() })]) {
      const url = `${endpoint.url.split(":")[0]}://${host}:${endpoint.port}/`;
      expect(await attempt(request(url))).toMatchObject({ kind: "answer", status: 200 });
      await endpoint.close();
      const gone = await attempt(request(url));
      expect(gone).toMatchObject({ kind: "failure", class: "connection" });
      expect(text(gone)).not.toContain("127.0");
    }
  });
});

describe("refusals", () => {
  it("P18, P21: a stored target that the policy no longer opens is refused without a look-up", async () => {
    const names = resolver({});
    const { attempt } = keep(attempts({ resolve: names, policy: { ...loopback, allowHosts: [], allowHttp: false, allowPorts: [] } }));
    for (const url of [
      "http://hooks.example.com/",
      "https://hooks.example.com:8443/",
      "https://127.0.0.1/",
      "https://localhost/",
      "nonsense",
    ]) {
      expect(await attempt(request(url)), url).toMatchObject({ kind: "failure", class: "refused" });
    }
    expect(names.asked).toEqual([]);
  });

  it("SSRF-08: a refusal dials nothing, so that an open port and a closed one look the same, and tells no address", async () => {
    const inner = await serve({ answer: { body: "inner secret" } });
    const { attempt } = keep(attempts({ policy: { ...loopback, allowHosts: [] } }));
    const results = [];
    for (const port of [inner.port, 1]) results.push(await attempt(request(`http://${host}:${port}/`)));
    expect(inner.connections).toBe(0);
    const messages = results.map((result) => text(result));
    expect(messages[0]).toBe(messages[1]);
    expect(messages[0]).toMatch(/^refused: [^0-9]{1,190}$/);
  });

  it("SSRF-08: the message of a broken connection or handshake holds no address, header or body", async () => {
    const { attempt } = keep(attempts());
    const cut = await raw((socket) => socket.end("HTTP/1.1 200 OK\r\nX-Secret: hunter2\r\nContent-Length: 99\r\n\r\nbody text"));
    const plain = await raw((socket) => socket.end("body text"));
    const wrong = await serve({ tls: authority.wrongName() });
    const noTls = await serve({ answer: { body: "body text" } });
    const urls = [
      `http://${host}:${cut.port}/`,
      `http://${host}:${plain.port}/`,
      `https://${host}:${wrong.port}/`,
      `https://${host}:${noTls.port}/`,
      `http://${host}:1/`,
    ];
    for (const url of urls) {
      const result = await attempt(request(url, { headers: { authorization: "hunter2" } }));
      expect(result.kind).toBe("failure");
      expect(text(result)).not.toMatch(/127\.0|::1|hunter2|body text|elsewhere/);
      expect(text(result).length).toBeLessThanOrEqual(200);
    }
  });

  it("P22: a request that cannot be sent is a failure, not an exception", async () => {
    const endpoint = await serve();
    const tries = keep(attempts());
    const result = await tries.attempt(request(`http://${host}:${endpoint.port}/`, { headers: { "x-bad": "a\r\nb" } }));
    expect(result).toMatchObject({ kind: "failure", class: "connection" });
    expect(endpoint.requests.length).toBe(0);
  });
});
