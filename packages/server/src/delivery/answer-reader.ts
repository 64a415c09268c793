/**
 * Reads the answers of one connection as their bytes come, one after the other (RFC 9112). Interim answers (1xx) are skipped, apart from
 * 101. Bytes that nobody asked for, and whatever is not plainly HTTP/1.1, end it. It keeps nothing of a body.
 */
import { type AnswerHead, readField, readHead } from "./answer-head.ts";

/** Who takes an answer: its head, its body in pieces that are good during the call only, its end. */
export interface AnswerTaker {
  onHead(head: AnswerHead): void;
  onData(bytes: Uint8Array): void;
  /** `keepMs`: how long the connection may wait for the next request; 0: it must not carry one. */
  onEnd(keepMs: number): void;
}

/** More than any sane head, line of a chunk or trailer, in bytes. */
const MOST_HEAD = 16_384;
const chunkSize = /^([0-9a-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i;

const NOT_HTTP = "the answer is not HTTP/1.1";
const TOO_LARGE = "the answer's headers are too large";
const UNASKED = "the endpoint sent what it was not asked for";

/** What comes next: nothing, a head, so many bytes of the body, a chunk's size, its bytes, its end, a trailer, or the connection's end. */
type Stage = "idle" | "head" | "body" | "size" | "chunk" | "gap" | "trailer" | "open";

export class AnswerReader {
  #stage: Stage = "idle";
  #taker: AnswerTaker | undefined;
  /** The beginning of a head or line whose end has not come yet. */
  #held = "";
  /** Bytes that are left of the body or of its chunk. */
  #left = 0;
  #keepMs = 0;
  /** The last head: those of one second are often the same. */
  #lastText = "";
  #lastHead: AnswerHead | null = null;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #length = 0;

  /** The next answer is `taker`'s. */
  expect(taker: AnswerTaker): void {
    this.#taker = taker;
    this.#stage = "head";
    this.#held = "";
  }

  /** Takes the first `length` of `bytes`; answers why that is no answer, or `null`. */
  read(bytes: Buffer, length: number): string | null {
    this.#bytes = bytes;
    this.#at = 0;
    this.#length = length;
    while (this.#at < length) {
      const fault = this.#step(this.#taker as AnswerTaker);
      if (fault !== null) return fault;
    }
    return null;
  }

  /** Nobody takes what comes any more. */
  forget(): void {
    this.#stage = "idle";
    this.#taker = undefined;
    this.#at = this.#length;
  }

  /** The connection has ended: whether that is the end of an answer, which is told, or cut one off. */
  ended(): boolean {
    if (this.#stage !== "open") return false;
    this.#end(0);
    return true;
  }

  #step(taker: AnswerTaker): string | null {
    switch (this.#stage) {
      case "idle":
        return UNASKED;
      case "head": {
        const text = this.#until("\r\n\r\n");
        return text === null ? this.#tooLarge() : this.#begin(taker, text);
      }
      case "body":
        this.#pass(taker);
        if (this.#left === 0) this.#end(this.#keepMs);
        return null;
      case "open":
        this.#left = Number.POSITIVE_INFINITY;
        this.#pass(taker);
        return null;
      case "size": {
        const line = this.#until("\r\n");
        if (line === null) return this.#tooLarge();
        const size = chunkSize.exec(line);
        if (size === null) return NOT_HTTP;
        this.#left = Number.parseInt(size[1] as string, 16);
        this.#stage = this.#left === 0 ? "trailer" : "chunk";
        return null;
      }
      case "chunk":
        this.#pass(taker);
        if (this.#left === 0) this.#stage = "gap";
        return null;
      case "gap": {
        const line = this.#until("\r\n");
        if (line !== null) this.#stage = "size";
        return line === null || line === "" ? this.#tooLarge() : NOT_HTTP;
      }
      case "trailer": {
        const line = this.#until("\r\n");
        if (line === null) return this.#tooLarge();
        this.#left += line.length;
        if (line === "") this.#end(this.#keepMs);
        else if (readField(line) === null) return NOT_HTTP;
        return this.#left > MOST_HEAD ? TOO_LARGE : null;
      }
    }
  }

  #begin(taker: AnswerTaker, text: string): string | null {
    const head = text === this.#lastText ? this.#lastHead : readHead(text);
    if (head === null) return NOT_HTTP;
    this.#lastText = text;
    this.#lastHead = head;
    if (head.status < 200 && head.status !== 101) return null;
    this.#keepMs = head.keepMs;
    taker.onHead(head);
    // Who took the head may have given up with it.
    if (this.#taker !== taker) return null;
    if (head.bodyEnd === "chunks") this.#stage = "size";
    else if (head.bodyEnd === "close") this.#stage = "open";
    else if (head.bodyEnd === 0) this.#end(head.keepMs);
    else {
      this.#left = head.bodyEnd;
      this.#stage = "body";
    }
    return null;
  }

  /** What comes behind a complete answer is nobody's: such a connection is not kept. */
  #end(keepMs: number): void {
    const taker = this.#taker;
    this.#stage = "idle";
    this.#taker = undefined;
    taker?.onEnd(this.#at < this.#length ? 0 : keepMs);
  }

  #pass(taker: AnswerTaker): void {
    const end = Math.min(this.#length, this.#at + this.#left);
    this.#left -= end - this.#at;
    const piece = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    taker.onData(piece);
  }

  /** The text up to `mark`, which is passed over; `null` while it has not come. */
  #until(mark: string): string | null {
    const text = this.#held + this.#bytes.toString("latin1", this.#at, Math.min(this.#length, this.#at + MOST_HEAD));
    const found = text.indexOf(mark, Math.max(0, this.#held.length - mark.length + 1));
    if (found < 0) {
      this.#at = this.#length;
      this.#held = text;
      return null;
    }
    this.#at += found + mark.length - this.#held.length;
    this.#held = "";
    return text.slice(0, found);
  }

  #tooLarge(): string | null {
    return this.#held.length >= MOST_HEAD ? TOO_LARGE : null;
  }
}
