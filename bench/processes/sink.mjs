/**
 * The endpoint that receives pushes: bare node:http that reads each request and answers 200 without a body. It counts requests,
 * bytes and messages; the messages of a batch are known from its length, since all messages of a figure have one size. A body that
 * carries `sentAt=<monotonic ms>;` also tells its latency.
 */
import { createServer } from "node:http";
import { serveJobs } from "../parts/child.mjs";
import { createHistogram } from "../parts/histogram.mjs";

let requests = 0;
let bytes = 0;
let messages = 0;
let perMessage = 0;
let sample = null;
let envelope = 0;
let timed = false;
let latencies = createHistogram();
let watch = null;

/** Learns the size of a message and of what is around it from one parsed body. */
function learn(text) {
  sample = text;
  const parsed = JSON.parse(text);
  // A notification is a message as a whole.
  if (parsed.messages === undefined) {
    perMessage = text.length;
    envelope = 0;
    return;
  }
  perMessage = JSON.stringify(parsed.messages[0]).length + 1;
  envelope = text.length - parsed.messages.length * perMessage;
}

function arrived(length, chunks) {
  requests += 1;
  bytes += length;
  if (perMessage === 0) learn(Buffer.concat(chunks).toString());
  messages += Math.round((length - envelope) / perMessage);
  if (watch !== null && messages >= watch.at) {
    watch.resolve({ messages, now: performance.timeOrigin + performance.now() });
    watch = null;
  }
}

serveJobs({
  listen() {
    const server = createServer((request, response) => {
      const at = timed ? Number(process.hrtime.bigint()) / 1e6 : 0;
      const chunks = [];
      let length = 0;
      request.on("data", (chunk) => {
        length += chunk.length;
        if (timed || perMessage === 0) chunks.push(chunk);
      });
      request.on("end", () => {
        response.writeHead(200, { "content-length": 0 });
        response.end();
        arrived(length, chunks);
        if (timed)
          for (const [, sent] of Buffer.concat(chunks)
            .toString()
            .matchAll(/sentAt=([\d.]+);/g))
            latencies.add(at - Number(sent));
      });
    });
    server.keepAliveTimeout = 120_000;
    return new Promise((resolve) => server.listen({ port: 0, backlog: 1024 }, () => resolve({ port: server.address().port })));
  },
  /** Forgets all counts; `timed` sinks look for `sentAt`. */
  reset({ timed: on = false }) {
    requests = 0;
    bytes = 0;
    messages = 0;
    perMessage = 0;
    timed = on;
    latencies = createHistogram();
  },
  counts() {
    return {
      requests,
      bytes,
      messages,
      now: performance.timeOrigin + performance.now(),
      latencyMs: { count: latencies.count, p50: latencies.quantile(0.5), p99: latencies.quantile(0.99) },
    };
  },
  /** The text of the first body since the last reset. */
  sample: () => sample,
  /** Answers when so many messages have come, or after `withinMs`. */
  until({ messages: at, withinMs }) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        watch = null;
        resolve(null);
      }, withinMs);
      const finish = (result) => {
        clearTimeout(timer);
        resolve(result);
      };
      if (messages >= at) finish({ messages, now: performance.timeOrigin + performance.now() });
      else watch = { at, resolve: finish };
    });
  },
});
