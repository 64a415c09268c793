/**
 * Joins what many callers want of the store at the same time into one transaction: while some are under way, what comes gathers and
 * travels next. Whoever makes a transaction of several fail is found by trying each alone; the others don't suffer for it.
 */
import { Fault } from "@millrace/contract";

/** How calls travel: at most `most` in a transaction, `width` transactions at once. */
export interface Coalescing {
  most: number;
  width: number;
}

interface Waiting<In, Out> {
  item: In;
  resolve: (out: Out) => void;
  reject: (error: unknown) => void;
}

/** A function of one item over a function of many, which answers one result per item, in order. */
export function coalesce<In, Out>(run: (items: In[]) => Promise<Out[]>, { most, width }: Coalescing): (item: In) => Promise<Out> {
  const waiting: Waiting<In, Out>[] = [];
  let open = 0;

  const alone = async ({ item, resolve, reject }: Waiting<In, Out>): Promise<void> => {
    try {
      const [out] = await run([item]);
      resolve(out as Out);
    } catch (error) {
      reject(error);
    }
  };
  const travel = async (together: Waiting<In, Out>[]): Promise<void> => {
    const [only] = together;
    if (together.length === 1 && only !== undefined) return alone(only);
    let outs: Out[];
    try {
      outs = await run(together.map(({ item }) => item));
    } catch (error) {
      // A store that is away is away for each of them.
      if (error instanceof Fault && error.status === 503) for (const { reject } of together) reject(error);
      else for (const each of together) await alone(each);
      return;
    }
    for (const [i, { resolve }] of together.entries()) resolve(outs[i] as Out);
  };
  const go = (): void => {
    while (open < width && waiting.length > 0) {
      open++;
      void travel(waiting.splice(0, most)).finally(() => {
        open--;
        go();
      });
    }
  };

  let scheduled = false;
  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (scheduled) return;
      scheduled = true;
      // What the same turn of the event loop wants travels together.
      setImmediate(() => {
        scheduled = false;
        go();
      });
    });
}
