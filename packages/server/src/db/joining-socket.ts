/**
 * A socket that sends together what the driver writes in one turn of the event loop: the statements of a pipeline are one system call, not
 * one each. The driver corks the socket around every prepared statement; here it stays corked until the turn is over.
 */
import { Socket } from "node:net";

/** A TCP socket for a pipelining driver. */
export class JoiningSocket extends Socket {
  #joining = false;

  override uncork(): void {
    if (this.#joining) {
      super.uncork();
      return;
    }
    this.#joining = true;
    process.nextTick(() => {
      this.#joining = false;
      super.uncork();
    });
  }
}
