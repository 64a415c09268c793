import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bodyBytes, decodeByContentType, encodePayload } from "./codec.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const back = (payload: unknown): unknown => {
  const { body, encoding, contentType } = encodePayload<unknown>(payload, undefined);
  return decodeByContentType(bodyBytes(body, encoding), contentType);
};

describe("payloads and bodies", () => {
  it("C11, C12: what is sent comes back: JSON values, any text, any bytes", () => {
    const comes = (value: unknown, as: unknown = value): void => void expect(back(value)).toEqual(as);
    fc.assert(fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => comes(value, JSON.parse(JSON.stringify(value)))));
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => comes(text)));
    fc.assert(fc.property(fc.uint8Array(), (value) => comes(value)));
    expect(back(Uint8Array.of(1, 2, 3).buffer)).toEqual(Uint8Array.of(1, 2, 3));
    expect(back(new Uint16Array([0x0201]))).toEqual(Uint8Array.of(1, 2));
  });

  it("C12: the content type decides how a body is read", () => {
    expect(decodeByContentType(bytes('{"a":1}'), "application/json")).toEqual({ a: 1 });
    expect(decodeByContentType(bytes('\ufeff{"a":1}'), "Application/JSON; charset=utf-8")).toEqual({ a: 1 });
    expect(decodeByContentType(bytes('{"a":1}'), "application/cloudevents+json")).toEqual({ a: 1 });
    expect(decodeByContentType(bytes('{"a":1}'), "text/plain")).toBe('{"a":1}');
    expect(decodeByContentType(Uint8Array.of(0xe9), "text/plain; charset=iso-8859-1")).toBe("é");
    expect(decodeByContentType(bytes("{}"), "application/octet-stream")).toEqual(bytes("{}"));
    expect(decodeByContentType(bytes("1,2"), "image/png")).toEqual(bytes("1,2"));
  });

  it("C12: a body that says nothing about itself is JSON, else text, else bytes", () => {
    expect(decodeByContentType(bytes('{"a":1}'), undefined)).toEqual({ a: 1 });
    expect(decodeByContentType(bytes("hello"), undefined)).toBe("hello");
    expect(decodeByContentType(bytes(""), undefined)).toBe("");
    expect(decodeByContentType(Uint8Array.of(0xff), undefined)).toEqual(Uint8Array.of(0xff));
  });

  it("C12: a body that is not what it says is an error", () => {
    expect(() => decodeByContentType(bytes("{"), "application/json")).toThrow();
    expect(() => decodeByContentType(bytes(""), "application/json")).toThrow();
    expect(() => decodeByContentType(Uint8Array.of(0xff), "application/json")).toThrow();
    expect(() => decodeByContentType(Uint8Array.of(0xff), "text/plain")).toThrow();
    expect(() => decodeByContentType(bytes("x"), "text/plain; charset=klingon")).toThrow();
  });

  it("C11: a payload that has no body is refused by name", () => {
    for (const payload of [undefined, () => 1, Symbol("x")]) expect(() => encodePayload<unknown>(payload, undefined)).toThrow(TypeError);
  });

  it("C11: a codec of the queue's own decides instead", () => {
    const codec = {
      contentType: "application/x-hex",
      encode: (n: number) => n.toString(16),
      decode: (body: Uint8Array) => Number.parseInt(new TextDecoder().decode(body), 16),
    };
    expect(encodePayload(255, codec)).toEqual({ body: "ff", encoding: "utf8", contentType: "application/x-hex" });
    const binary = { ...codec, encode: (n: number) => Uint8Array.of(n) };
    expect(encodePayload(255, binary)).toEqual({ body: "/w==", encoding: "base64", contentType: "application/x-hex" });
  });
});
