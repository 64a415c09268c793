/** The thread that owns the SQLite file: runs questions one after the other and posts each answer after its commit. */
import { parentPort, workerData } from "node:worker_threads";
import { openSqlite } from "../db/sqlite.ts";
import { copyTo } from "./copy.ts";
import { createEngine } from "./engine.ts";
import { migrate } from "./migrate.ts";
import { buffersOf, packAnswer, unpackBatch } from "./pack.ts";
import { randomOf } from "./random.ts";
import { statements } from "./statements.ts";
import { type Answer, type Question, type WorkerOptions, wireError } from "./worker-port.ts";

const port = parentPort;
if (port === null) throw new Error("worker.ts runs as a worker thread.");
const options = workerData as WorkerOptions;
let now = Date.now();
let ready: [number, number][] = [];
let copy: Promise<void> = Promise.resolve();
let closing = false;

const reply = (answer: Answer, buffers: ArrayBuffer[] = []) => port.postMessage(answer, buffers);
const told = () => {
  const all = ready;
  ready = [];
  return all;
};

try {
  const db = openSqlite({ path: options.path, statements, now: () => now, relaxedSync: options.relaxedSync });
  if (options.maxPages !== null) db.raw.pragma(`max_page_count = ${options.maxPages}`);
  db.onReady((queueNo, inMs) => ready.push([queueNo, inMs]));
  await migrate(db);
  const engine = createEngine(db, randomOf(options.seed));
  const answerTo = async (question: Question): Promise<void> => {
    now = question.now;
    try {
      if (question.kind === "hot") {
        const answer = packAnswer(await engine.hot(unpackBatch(question.batch)));
        reply({ kind: "hot", answer, ready: told() }, buffersOf(answer));
      } else if (question.kind === "cold") {
        const answer = await engine.cold(question.call);
        reply({ kind: "cold", answer, ready: told() });
      } else if (question.kind === "backup") {
        copy = copyTo(db.raw, question.path, () => closing).then(
          () => reply({ kind: "copied", error: null, ready: [] }),
          (error: unknown) => reply({ kind: "copied", error: wireError(error), ready: [] }),
        );
        reply({ kind: "copying", ready: told() });
      } else {
        closing = true;
        await copy;
        await engine.close();
        reply({ kind: "closed", ready: [] });
        port.close();
      }
    } catch (error) {
      reply({ kind: "error", error: wireError(error), ready: told() });
    }
  };
  let last: Promise<void> = Promise.resolve();
  port.on("message", (question: Question) => {
    last = last.then(() => answerTo(question));
  });
  reply({ kind: "open", ready: [] });
} catch (error) {
  reply({ kind: "error", error: wireError(error), ready: [] });
  port.close();
}
