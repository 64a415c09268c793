/**
 * A worker that is to be killed: handles the first of its messages, gets stuck at all others, and says so line by line. Started with the
 * queue's name and how many messages it may have at once.
 */
import { queue } from "./index.ts";

const [name = "", concurrency = "10", quick = "0"] = process.argv.slice(2);
let begun = 0;
await queue<number>(name).consume(
  async (n) => {
    begun += 1;
    if (begun <= Number(quick)) {
      console.log(`handled ${n}`);
      return;
    }
    console.log(`stuck ${n}`);
    await new Promise(() => {});
  },
  { concurrency: Number(concurrency), maxMessages: Number(concurrency) },
);
