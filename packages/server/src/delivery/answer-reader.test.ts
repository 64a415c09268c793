import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readHead } from "./answer-head.ts";
import { AnswerReader } from "./answer-reader.ts";

/** Reads what comes in pieces; answers what was heard, and why it ended where it was no answer. */
function heard(pieces: readonly string[], { asked = 1, ends = false } = {}): string[] {
  const told: string[] = [];
  const reader = new AnswerReader();
  let left = asked;
  const ask = (): void => {
    if (left-- <= 0) return;
    let body = "";
    let status = 0;
    reader.expect({
      onHead: (head) => {
        status = head.status;
      },
      onData: (bytes) => {
        body += Buffer.from(bytes).toString("latin1");
      },
      onEnd: (keepMs) => {
        told.push(`${status} ${body}${keepMs > 0 ? "" : " (last)"}`);
        ask();
      },
    });
  };
  ask();
  for (const piece of pieces) {
    const bytes = Buffer.from(piece, "latin1");
    const fault = reader.read(bytes, bytes.length);
    // What was read lies in a buffer that others use next.
    bytes.fill(0);
    if (fault !== null) return [...told, fault];
  }
  if (ends) told.push(reader.ended() ? "whole" : "cut");
  return told;
}

const chunked = (chunks: readonly string[], trailer = ""): string =>
  `${chunks.map((chunk) => `${chunk.length.toString(16)};a="b"\r\n${chunk}\r\n`).join("")}0\r\n${trailer}\r\n`;

describe("the reader of answers", () => {
  it("P9: reads the same from the same bytes however they are cut: interim heads, lengths, chunks, trailers, bodies that end with the connection", () => {
    const word = fc.string({ unit: fc.constantFrom(..."ab \r\n0:éHTP/1.") });
    const answer = fc.oneof(
      word.map((body) => ({ text: `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`, told: `200 ${body}` })),
      fc.array(word.filter((each) => each !== "")).map((chunks) => ({
        text: `HTTP/1.1 500 Odd\r\ntransfer-encoding: Chunked\r\n\r\n${chunked(chunks, "x: y\r\n")}`,
        told: `500 ${chunks.join("")}`,
      })),
      fc.constant({ text: "HTTP/1.1 204 No\r\nX: y\r\n\r\n", told: "204 " }),
    );
    const interim = fc.constantFrom("", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\n");
    fc.assert(
      fc.property(fc.array(fc.tuple(interim, answer), { minLength: 1 }), word, fc.array(fc.nat(40)), (answers, rest, cuts) => {
        for (const [before, { text, told }] of [
          ...answers,
          ["", { text: `HTTP/1.0 299 X\r\n\r\n${rest}`, told: `299 ${rest}` }] as const,
        ]) {
          const whole = before + text;
          const pieces: string[] = [];
          let at = 0;
          for (const cut of cuts) {
            pieces.push(whole.slice(at, at + cut + 1));
            at += cut + 1;
          }
          const [first, ...more] = heard([...pieces, whole.slice(at)], { ends: true });
          expect([first, more]).toEqual(told.startsWith("299") ? [`${told} (last)`, ["whole"]] : [told, ["cut"]]);
        }
      }),
    );
  });

  it("P22: what comes behind an answer ends the connection, be it in the same piece or later", () => {
    const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    expect(heard([`${ok}HTTP/1.1 200 OK\r\n`])).toEqual(["200 ok (last)", "the endpoint sent what it was not asked for"]);
    expect(heard([ok, "x"])).toEqual(["200 ok", "the endpoint sent what it was not asked for"]);
    expect(heard([ok, ok], { asked: 2 })).toEqual(["200 ok", "200 ok"]);
    expect(heard(["HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n"])).toEqual(["204  (last)"]);
  });

  const endless: [name: string, first: string, more: string][] = [
    ["a head", "HTTP/1.1 200 OK\r\nX: ", "a"],
    ["an interim head", "HTTP/1.1 100 ", "a"],
    ["a chunk's size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a"],
    ["a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: ", "a"],
    ["trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "x: aaaaa\r\n"],
  ];
  for (const [name, first, more] of endless) {
    it(`P9: ${name} without an end is given up at 16 KiB, in one piece as in many`, () => {
      const pieces = [first, ...Array.from({ length: 40 }, () => more.repeat(1_000))];
      for (const given of [pieces, [pieces.join("")]]) expect(heard(given)).toEqual(["the answer's headers are too large"]);
    });
  }

  const wrong: [name: string, text: string][] = [
    ["no HTTP", "hello\r\n\r\n"],
    ["HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"],
    ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"],
    ["a line without a colon", "HTTP/1.1 200 OK\r\nhello\r\n\r\n"],
    ["a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"],
    ["a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok"],
    ["a bare line feed in a value", "HTTP/1.1 200 OK\r\nX: y\nContent-Length: 2\r\n\r\nok"],
    ["a NUL", "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"],
    ["a value on two lines", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 2\r\n\r\nok"],
    ["a bare line feed before a value", "HTTP/1.1 200 OK\r\nContent-Length:\n2\r\n\r\nok"],
    ["a bare carriage return behind a value", "HTTP/1.1 200 OK\r\nContent-Length: 2\r \r\n\r\nok"],
    ["a trailer without a colon", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nq\r\n\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"],
    ["a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"],
    ["a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"],
    ["a length in hex", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok"],
    ["a length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
    ["a chunk without a size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n"],
    ["a chunk with a sign", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n"],
    ["a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n"],
  ];
  for (const [name, text] of wrong) {
    it(`P9: ${name} is no answer`, () => {
      for (const pieces of [[text], [...text]]) expect(heard(pieces)).toEqual(["the answer is not HTTP/1.1"]);
    });
  }
});

describe("a head", () => {
  const head = (lines: string) => readHead(`HTTP/1.1 200 OK\r\n${lines}`);

  it("P9: names are in lower case, values without spaces around them, repeated ones in a list", () => {
    expect(head("X-A:\t b \r\nx-a: c\r\n__proto__: f\r\nconstructor: g\r\nX-A: h")?.headers).toEqual({
      "x-a": ["b", "c", "h"],
      constructor: "g",
    });
  });

  it("P22: says how long a connection may be kept: 2 s less than the endpoint says, 4 s where it says nothing, not at all where it closes", () => {
    const keep = (lines: string) => head(`Content-Length: 0\r\n${lines}`)?.keepMs;
    expect(keep("X: y")).toBe(4_000);
    expect(keep("Keep-Alive: max=3, timeout=120")).toBe(118_000);
    expect(keep("Keep-Alive: timeout=1")).toBe(0);
    expect(keep("Connection: x, Close")).toBe(0);
    expect(head("X: y")?.keepMs).toBe(0);
    expect(readHead("HTTP/1.0 200 OK\r\nContent-Length: 0")?.keepMs).toBe(0);
    expect(readHead("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive")?.keepMs).toBe(4_000);
  });

  it("P9: chunks count where they are the last coding; another last one ends with the connection", () => {
    expect(head("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked")?.bodyEnd).toBe("chunks");
    expect(head("Transfer-Encoding: chunked, gzip")).toMatchObject({ bodyEnd: "close", keepMs: 0 });
  });
});
