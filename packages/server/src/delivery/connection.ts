/**
 * One socket to an address that was checked, for one request at a time. Who has a request on it is told how that ends, once; whatever
 * comes while nobody has one ends the connection.
 */
import type { Socket } from "node:net";
import { AnswerReader, type AnswerTaker } from "./answer-reader.ts";
import type { Failure } from "./egress.ts";
import { failureOf } from "./failures.ts";

/** Who has a request on a connection. */
export interface Asker extends AnswerTaker {
  onBroken(failure: Failure): void;
}

/** Requests up to this size are copied together with their head: one buffer is written faster than two. */
const JOINED_BYTES = 16_384;

const CUT: Failure = { class: "connection", message: "the endpoint closed the connection before its answer was complete" };

export class Connection {
  readonly endpoint: string;
  readonly socket: Socket;
  /** When its address was checked, and until when it may wait for a request; monotonic milliseconds. */
  readonly bornMs: number;
  idleUntilMs = 0;
  readonly #reader = new AnswerReader();
  #asker: Asker | undefined;

  /** `ended` hears once that it can't be used any more. */
  constructor(endpoint: string, bornMs: number, socket: Socket, ended: (connection: Connection) => void) {
    this.endpoint = endpoint;
    this.bornMs = bornMs;
    this.socket = socket;
    // Whoever waits for an answer has a timer; a connection alone keeps no process alive.
    socket.unref();
    socket.on("error", (error) => this.#break(failureOf(error)));
    socket.once("end", () => {
      if (this.#reader.ended()) this.#asker = undefined;
      this.#break(CUT);
    });
    socket.once("close", () => {
      this.#break(CUT);
      ended(this);
    });
  }

  /** Writes a request; `head` is latin1. */
  ask(head: string, body: Uint8Array, asker: Asker): void {
    this.#asker = asker;
    this.#reader.expect(asker);
    const { socket } = this;
    if (head.length + body.length <= JOINED_BYTES) {
      const bytes = Buffer.allocUnsafe(head.length + body.length);
      bytes.write(head, "latin1");
      bytes.set(body, head.length);
      socket.write(bytes);
      return;
    }
    socket.cork();
    socket.write(head, "latin1");
    socket.write(body);
    socket.uncork();
  }

  /** Takes what the socket read: the first `length` of `bytes`. */
  read(bytes: Buffer, length: number): void {
    try {
      const fault = this.#reader.read(bytes, length);
      if (fault !== null) this.#break({ class: "connection", message: fault });
    } catch (error) {
      this.#break(failureOf(error));
    }
  }

  /** Ends it now; who has a request on it hears nothing more. */
  destroy(): void {
    this.#asker = undefined;
    this.#reader.forget();
    this.socket.destroy();
  }

  #break(failure: Failure): void {
    const asker = this.#asker;
    this.destroy();
    asker?.onBroken(failure);
  }
}
