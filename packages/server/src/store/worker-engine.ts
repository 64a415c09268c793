/** The engine of a SQLite file, seen from the main thread: questions to the worker, answers back in order. */
import { Worker } from "node:worker_threads";
import { Fault } from "@millrace/contract";
import type { Clock } from "../clock.ts";
import { createReadyBoard } from "../db/ready.ts";
import type { ColdAnswer, Engine } from "./engine.ts";
import type { HotAnswer } from "./hot.ts";
import { buffersOf, packBatch, unpackAnswer } from "./pack.ts";
import { type Answer, type Question, readError, type WorkerOptions } from "./worker-port.ts";

/** Starts the worker; rejects when it can't open the file. */
export async function openWorkerEngine(options: WorkerOptions, clock: Clock): Promise<Engine> {
  const worker = startWorker(options);
  const board = createReadyBoard();
  const waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void }[] = [];
  let ended: Error | null = null;
  let copied: ((error: Error | null) => void) | null = null;
  const end = (error: Error) => {
    ended ??= error;
    copied?.(ended);
    copied = null;
    for (const { reject } of waiting.splice(0)) reject(ended);
  };
  const opened = new Promise<Answer>((resolve, reject) => waiting.push({ resolve, reject }));
  worker.on("message", (answer: Answer) => {
    if (answer.kind === "copied") {
      copied?.(answer.error === null ? null : readError(answer.error));
      copied = null;
      return;
    }
    const first = waiting.shift();
    if (answer.kind === "error") first?.reject(readError(answer.error));
    else first?.resolve(answer);
    for (const [queueNo, inMs] of answer.ready) board.tell(new Map([[queueNo, inMs]]), 0);
  });
  worker.on("error", (error) => end(error as Error));
  worker.on("exit", () => end(new Fault("unavailable", "The store is closed.", { retryAfterSeconds: 1 })));

  const ask = (question: Question, buffers: ArrayBuffer[] = []): Promise<Answer> => {
    if (ended !== null) return Promise.reject(ended);
    return new Promise((resolve, reject) => {
      waiting.push({ resolve, reject });
      worker.postMessage(question, buffers);
    });
  };
  await opened;
  return {
    engine: "sqlite",
    async hot(batch): Promise<HotAnswer> {
      const packed = packBatch(batch);
      const answer = await ask({ kind: "hot", batch: packed, now: clock.now() }, buffersOf(packed));
      return unpackAnswer((answer as Answer & { kind: "hot" }).answer);
    },
    async cold(call): Promise<ColdAnswer> {
      return ((await ask({ kind: "cold", call, now: clock.now() })) as Answer & { kind: "cold" }).answer;
    },
    onReady: board.add,
    async backup(path) {
      if (copied !== null) throw new Fault("overloaded", "A backup is being made already.", { retryAfterSeconds: 30 });
      const end = new Promise<void>((resolve, reject) => {
        copied = (error) => (error === null ? resolve() : reject(error));
      });
      end.catch(() => {});
      await ask({ kind: "backup", path, now: clock.now() });
      await end;
    },
    async close() {
      if (ended !== null) return;
      const exit = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
      await ask({ kind: "close", now: clock.now() });
      await exit;
    },
  };
}

/** From the sources (tests) the worker has to load TypeScript: Node starts threads without the loader of the main thread. */
function startWorker(workerData: WorkerOptions): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL("./worker.js", import.meta.url), { workerData });
  return new Worker(new URL("./worker-source.mjs", import.meta.url), { workerData, execArgv: ["--conditions=@millrace/source"] });
}
