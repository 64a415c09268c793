/**
 * The load generator: raw connections, one request in flight on each. Jobs come from the bench over IPC; every job is bounded by time
 * or by a count. 429 and 503 are waited out as their Retry-After says, and counted.
 */
import { serveJobs } from "../parts/child.mjs";
import { Connection, requestBytes } from "../parts/connection.mjs";
import { createHistogram } from "../parts/histogram.mjs";

const RETRY_AFTER = /\r\nretry-after: *(\d+)/i;
const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function waitOf(head) {
  const seconds = RETRY_AFTER.exec(head);
  return seconds === null ? 100 : Number(seconds[1]) * 1000;
}

/** Connections kept between jobs to one port, so that a round does not begin with handshakes. */
const kept = new Map();
function connectionsTo(port, count) {
  const list = kept.get(port) ?? [];
  kept.set(port, list);
  while (list.length < count) list.push(new Connection(port));
  return list.slice(0, count);
}

/** An endless source of numbers below `count`, in an order that is scattered but the same every time. */
function scatter(count, start) {
  let at = start % count;
  return () => {
    at = (at + 7919) % count;
    return at;
  };
}

const counters = () => ({ requests: 0, refused: 0, failed: 0, firstFailure: null });

function note(counted, status, body) {
  if (status === 429 || status === 503) counted.refused += 1;
  else {
    counted.failed += 1;
    counted.firstFailure ??= `${status} ${body.slice(0, 300)}`;
  }
}

let stopping = false;

serveJobs({
  /** Makes running jobs end at their next answer. */
  stop() {
    stopping = true;
  },
  /**
   * Sends the same few requests round and round. `requests` are `{method, path, headers, body}`; ends after `seconds` (of which
   * `warmupSeconds` come first, uncounted) or after `total` requests.
   */
  async fixed({ port, connections, requests, seconds = null, warmupSeconds = 0, total = null }) {
    stopping = false;
    const bytes = requests.map((r) => requestBytes(r.method, r.path, `127.0.0.1:${port}`, r.headers, r.body));
    const start = performance.now();
    const from = start + warmupSeconds * 1000;
    const end = seconds === null ? Number.POSITIVE_INFINITY : from + seconds * 1000;
    const latencies = createHistogram();
    const counted = counters();
    let begun = 0;
    const lane = (connection) =>
      new Promise((resolve) => {
        let sent = 0;
        const next = () => {
          if (stopping || (total !== null && begun >= total)) return resolve();
          sent = performance.now();
          if (sent >= end) return resolve();
          connection.send(bytes[begun++ % bytes.length], answered);
        };
        const answered = (status, head, body) => {
          const now = performance.now();
          if (status >= 200 && status < 300) {
            if (now >= from && now < end) {
              counted.requests += 1;
              latencies.add(now - sent);
            }
            return next();
          }
          note(counted, status, body);
          begun -= total === null ? 0 : 1;
          setTimeout(next, status === 0 ? 20 : waitOf(head));
        };
        next();
      });
    await Promise.all(connectionsTo(port, connections).map(lane));
    const took = (Math.min(performance.now(), end) - from) / 1000;
    return { ...counted, perSecond: counted.requests / took, seconds: took, p50: latencies.quantile(0.5), p99: latencies.quantile(0.99) };
  },
  /**
   * Lives of messages: each lane sends `batch` messages to a queue, receives as many and acknowledges them. `queues` are paths;
   * `groups` > 0 gives each message one of so many groups. Answers acknowledged messages a second.
   */
  async lifecycle({ port, connections, headers, queues, batch, body, groups = 0, seconds, warmupSeconds = 0 }) {
    stopping = false;
    const host = `127.0.0.1:${port}`;
    const receive = queues.map((path) =>
      requestBytes("POST", `${path}/messages/receive`, host, headers, JSON.stringify({ maxMessages: batch, waitSeconds: 1 })),
    );
    const fixedSend =
      groups > 0
        ? null
        : queues.map((path) =>
            requestBytes(
              "POST",
              `${path}/messages`,
              host,
              headers,
              JSON.stringify({ messages: Array.from({ length: batch }, () => ({ body })) }),
            ),
          );
    const quoted = JSON.stringify(body);
    const start = performance.now();
    const from = start + warmupSeconds * 1000;
    const end = from + seconds * 1000;
    const counted = counters();
    const sends = createHistogram();
    const receives = createHistogram();
    let acked = 0;
    let empty = 0;
    const lane = async (connection, index) => {
      const group = scatter(Math.max(groups, 1), index * 104_729);
      let at = index;
      const ask = async (bytes, times) => {
        for (;;) {
          const sent = performance.now();
          const answer = await connection.ask(bytes);
          if (answer.status >= 200 && answer.status < 300) {
            times?.add(performance.now() - sent);
            return answer;
          }
          note(counted, answer.status, answer.body);
          if (stopping || performance.now() >= end) return null;
          await sleep(answer.status === 0 ? 20 : waitOf(answer.head));
        }
      };
      while (!stopping && performance.now() < end) {
        const which = at % queues.length;
        at += connections;
        if (connections % queues.length === 0) at += 1;
        let send;
        if (fixedSend !== null) send = fixedSend[which];
        else {
          const messages = Array.from({ length: batch }, () => `{"body":${quoted},"groupId":"g${group()}"}`);
          send = requestBytes("POST", `${queues[which]}/messages`, host, headers, `{"messages":[${messages.join(",")}]}`);
        }
        if ((await ask(send, sends)) === null) return;
        const got = await ask(receive[which], receives);
        if (got === null) return;
        const receipts = Array.from(got.body.matchAll(/"receipt":"([^"]+)"/g), (match) => match[1]);
        if (receipts.length === 0) {
          empty += 1;
          continue;
        }
        const ack = requestBytes("POST", `${queues[which]}/messages/ack`, host, headers, JSON.stringify({ receipts }));
        if ((await ask(ack)) === null) return;
        const now = performance.now();
        if (now >= from && now < end) acked += receipts.length;
      }
    };
    await Promise.all(connectionsTo(port, connections).map(lane));
    return { ...counted, perSecond: acked / seconds, empty, sendP99: sends.quantile(0.99), receiveP99: receives.quantile(0.99) };
  },
  /**
   * Single sends at a steady pace, each body carrying the monotonic time at which it left. `groups` > 0 names small groups in turn.
   * Answers how long the sends took.
   */
  async trickle({ port, headers, path, everyMs, count = null, seconds = null, size, groups = 0 }) {
    stopping = false;
    const latencies = createHistogram();
    const counted = counters();
    const end = seconds === null ? Number.POSITIVE_INFINITY : performance.now() + seconds * 1000;
    const connection = connectionsTo(port, 1)[0];
    for (let n = 0; (count === null || n < count) && !stopping && performance.now() < end; n += 1) {
      await sleep(everyMs * (0.5 + Math.random()));
      const sent = monotonicMs();
      const stamp = `sentAt=${sent.toFixed(3)};`;
      const message = { body: stamp.padEnd(size, "x"), ...(groups > 0 ? { groupId: `small-${n % groups}` } : {}) };
      const { status, body } = await connection.ask(
        requestBytes("POST", path, `127.0.0.1:${port}`, headers, JSON.stringify({ messages: [message] })),
      );
      if (status >= 200 && status < 300) {
        counted.requests += 1;
        latencies.add(monotonicMs() - sent);
      } else note(counted, status, body);
    }
    return { ...counted, p50: latencies.quantile(0.5), p99: latencies.quantile(0.99) };
  },
  /**
   * Receives and acknowledges batches of 10 with `connections` lanes for `seconds`. Messages stamped `sentAt` tell how long they waited,
   * from their send to the answer that carried them; the others are counted as hot.
   */
  async consume({ port, connections, headers, path, seconds, waitSeconds = 1 }) {
    stopping = false;
    const host = `127.0.0.1:${port}`;
    const receive = requestBytes("POST", `${path}/messages/receive`, host, headers, JSON.stringify({ maxMessages: 10, waitSeconds }));
    const waits = createHistogram();
    const counted = counters();
    let hot = 0;
    let small = 0;
    const end = performance.now() + seconds * 1000;
    const lane = async (connection) => {
      while (!stopping && performance.now() < end) {
        const got = await connection.ask(receive);
        if (got.status !== 200) {
          note(counted, got.status, got.body);
          await sleep(got.status === 0 ? 20 : waitOf(got.head));
          continue;
        }
        const at = monotonicMs();
        const receipts = Array.from(got.body.matchAll(/"receipt":"([^"]+)"/g), (match) => match[1]);
        if (receipts.length === 0) continue;
        let stamped = 0;
        for (const [, sent] of got.body.matchAll(/sentAt=([\d.]+);/g)) {
          waits.add(at - Number(sent));
          stamped += 1;
        }
        small += stamped;
        hot += receipts.length - stamped;
        const done = await connection.ask(requestBytes("POST", `${path}/messages/ack`, host, headers, JSON.stringify({ receipts })));
        if (done.status !== 200) note(counted, done.status, done.body);
      }
    };
    await Promise.all(connectionsTo(port, connections).map(lane));
    return { ...counted, hotPerSecond: hot / seconds, small, p50: waits.quantile(0.5), p99: waits.quantile(0.99) };
  },
});
