/** A socket that sends together what is written in one turn of the event loop: pipelined statements are one system call, not one each. */
import { Socket } from "node:net";

type Write = Parameters<Socket["write"]>;

/** A TCP socket; whatever else corks it does so within its own turn. */
export class JoiningSocket extends Socket {
  #joining = false;

  override write(...given: unknown[]): boolean {
    if (!this.#joining) {
      this.#joining = true;
      this.cork();
      process.nextTick(() => {
        this.#joining = false;
        this.uncork();
      });
    }
    return super.write(...(given as Write));
  }
}
