/**
 * One keep-alive HTTP/1.1 connection with one request in flight, as cheap as node allows: requests are ready-made bytes, an answer is
 * parsed only as far as its status and length. A connection that the server closed is opened again before the next request.
 */
import { connect } from "node:net";

const LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;
const CLOSE = /\r\nconnection: *close/i;

/** The bytes of one request. `body` is text or null. */
export function requestBytes(method, path, host, headers = {}, body = null) {
  const lines = [`${method} ${path} HTTP/1.1`, `host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== null) lines.push("content-type: application/json", `content-length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body ?? ""}`);
}

function unchunk(text) {
  let out = "";
  let at = 0;
  for (;;) {
    const end = text.indexOf("\r\n", at);
    if (end < 0) return null;
    const size = Number.parseInt(text.slice(at, end), 16);
    if (size === 0) return text.length >= end + 4 ? out : null;
    if (text.length < end + 4 + size) return null;
    out += text.slice(end + 2, end + 2 + size);
    at = end + 4 + size;
  }
}

/** `send(bytes, done)` calls `done(status, head, body)` with latin1 texts; status 0 is a broken connection. */
export class Connection {
  constructor(port, host = "127.0.0.1") {
    this.port = port;
    this.host = host;
    this.done = null;
    this.socket = null;
    this.pending = "";
    this.bodyAt = -1;
    this.need = -1;
    this.closing = false;
  }

  open() {
    const socket = connect({ port: this.port, host: this.host, noDelay: true });
    socket.on("data", (chunk) => this.read(chunk));
    socket.on("error", () => {});
    socket.on("close", () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.finish(0, "", "");
    });
    this.socket = socket;
  }

  send(bytes, done) {
    if (this.socket === null) this.open();
    this.done = done;
    this.socket.write(bytes);
  }

  /** The promise form of `send`: answers `{status, body}`. */
  ask(bytes) {
    return new Promise((resolve) => this.send(bytes, (status, head, body) => resolve({ status, head, body })));
  }

  read(chunk) {
    this.pending = this.pending === "" ? chunk.latin1Slice(0, chunk.length) : this.pending + chunk.latin1Slice(0, chunk.length);
    if (this.bodyAt < 0) {
      const end = this.pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.bodyAt = end + 4;
      const head = this.pending.slice(0, end);
      const length = LENGTH.exec(head);
      this.need = length !== null ? Number(length[1]) : CHUNKED.test(head) ? -2 : 0;
      this.closing = CLOSE.test(head);
    }
    let body;
    if (this.need === -2) {
      body = unchunk(this.pending.slice(this.bodyAt));
      if (body === null) return;
    } else {
      if (this.pending.length < this.bodyAt + this.need) return;
      body = this.pending.slice(this.bodyAt, this.bodyAt + this.need);
    }
    const head = this.pending.slice(0, this.bodyAt);
    this.pending = "";
    this.bodyAt = -1;
    if (this.closing) {
      const socket = this.socket;
      this.socket = null;
      socket.destroy();
    }
    this.finish(Number(head.slice(9, 12)), head, body);
  }

  finish(status, head, body) {
    const done = this.done;
    this.done = null;
    if (done !== null) done(status, head, body);
  }

  close() {
    const socket = this.socket;
    this.socket = null;
    socket?.destroy();
  }
}
