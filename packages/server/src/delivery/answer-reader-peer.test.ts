/** The reader of answers beside Node's own HTTP client: the same damaged answers, and what each takes them for. */
import { once } from "node:events";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import fc from "fast-check";
import { expect, it } from "vitest";
import { AnswerReader } from "./answer-reader.ts";

const answers = [
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
  "HTTP/1.0 200 OK\r\nX: y\r\n\r\nhello",
  "HTTP/1.1 404 Nope\r\nContent-Length: 0\r\nConnection: close\r\nA: b\r\n\r\n",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\nq: r\r\n\r\n",
];
const pieces = ["\r\n", "\n", "\r", " ", "\t", ":", "0", "5", "a", "\0", "\x80", "+", "-", ",", "\x0b", "HTTP/1.1 "];
const lines = ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "X: y\r\n z\r\n"];

/** What this reader takes an answer for, and whether its connection would be used again; `null`: for none. */
function ours(text: string): { read: string; kept: boolean } | null {
  const reader = new AnswerReader();
  let read = "";
  let kept: boolean | undefined;
  reader.expect({
    onHead: ({ status }) => {
      read = `${status} `;
    },
    onData: (bytes) => {
      read += Buffer.from(bytes).toString("latin1");
    },
    onEnd: (keepMs) => {
      kept = keepMs > 0;
    },
  });
  const bytes = Buffer.from(text, "latin1");
  if (reader.read(bytes, bytes.length) === null && kept === undefined) reader.ended();
  return kept === undefined ? null : { read, kept };
}

it("P9, P22: what both take for an answer is the same one, and what Node's client refuses is refused or ends its connection", async () => {
  let given = "";
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(Buffer.from(given, "latin1")));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const theirs = (text: string): Promise<string | null> =>
    new Promise((resolve) => {
      given = text;
      const asked = request({ port, host: "127.0.0.1", agent: false, method: "POST" });
      asked.on("error", () => resolve(null));
      asked.on("upgrade", () => resolve(null));
      asked.on("response", (answer) => {
        let read = `${answer.statusCode} `;
        answer.setEncoding("latin1");
        answer.on("data", (text) => {
          read += text;
        });
        answer.on("error", () => resolve(null));
        answer.on("end", () => resolve(answer.complete ? read : null));
      });
      asked.end("x");
    });
  const damage = fc.record({ at: fc.nat(120), cut: fc.nat(3), put: fc.constantFrom("", ...pieces, ...lines) });
  const damaged = fc
    .tuple(fc.constantFrom(...answers), fc.array(damage, { minLength: 1, maxLength: 2 }))
    .map(([answer, all]) =>
      all.reduce((text, { at, cut, put }) => text.slice(0, at % text.length) + put + text.slice((at % text.length) + cut), answer),
    );
  try {
    await fc.assert(
      fc.asyncProperty(damaged, async (text) => {
        const [own, other] = [ours(text), await theirs(text)];
        if (own !== null && other !== null) expect(own.read).toBe(other);
        if (other === null) expect(own?.kept ?? false).toBe(false);
      }),
      { numRuns: 1_000, seed: 9 },
    );
  } finally {
    server.close();
  }
});
