/**
 * Whether anything grows: nodes on one PostgreSQL under a steady load of lives (send ten, receive ten, acknowledge ten), half of them in a FIFO
 * queue of 100 groups. `node bench/steady.mjs`, with NODES (2), RATE (messages a second, 300), MINUTES (30) and EVERY (seconds a line, 60).
 * A line tells the table and its indexes, dead rows and the nodes' resident memory; the last one compares the run's second and last third.
 */
import { startPostgres } from "@millrace/testkit";
import { body } from "./parts/bodies.mjs";
import { Connection, requestBytes } from "./parts/connection.mjs";
import { median, sleep } from "./parts/machine.mjs";
import { startNodes } from "./parts/nodes.mjs";
import { postgresSettings } from "./parts/postgres-settings.mjs";

const number = (name, usual) => Number(process.env[name] ?? usual);
const rate = number("RATE", 300);
const endMs = number("MINUTES", 30) * 60_000;
const everyMs = number("EVERY", 60) * 1000;
const BATCH = 10;
const LANES = 8;
const GROUPS = 100;

const postgres = await startPostgres(postgresSettings);
const cluster = await startNodes(await postgres.fresh(), number("NODES", 2));
const { nodes, first } = cluster;
await first.createQueue("plain");
await first.createQueue("ordered.fifo", { type: "fifo" });

const begun = performance.now();
const counted = { sent: 0, acked: 0, failed: 0 };
/** One lane: lives at its share of the rate, on a node of its own. What comes late is not made up for. */
async function lane(n) {
  const node = nodes[n % nodes.length];
  const name = n % 2 === 0 ? "plain" : "ordered.fifo";
  const path = `${first.queuePath(name)}/messages`;
  const connection = new Connection(node.port);
  const ask = async (at, fields) => {
    const answer = await connection.ask(requestBytes("POST", at, `127.0.0.1:${node.port}`, first.headers, JSON.stringify(fields)));
    if (answer.status >= 200 && answer.status < 300) return answer.body;
    counted.failed += 1;
    await sleep(100);
    return null;
  };
  for (let life = 0; performance.now() - begun < endMs; life += 1) {
    const messages = Array.from({ length: BATCH }, (_, i) => ({
      body,
      ...(n % 2 === 0 ? {} : { groupId: `g${(life * BATCH + i) % GROUPS}` }),
    }));
    if ((await ask(path, { messages })) !== null) counted.sent += BATCH;
    const got = await ask(`${path}/receive`, { maxMessages: BATCH, waitSeconds: 1 });
    const receipts = Array.from((got ?? "").matchAll(/"receipt":"([^"]+)"/g), (match) => match[1]);
    if (receipts.length > 0 && (await ask(`${path}/ack`, { receipts })) !== null) counted.acked += receipts.length;
    const due = begun + ((life + 1) * BATCH * LANES * 1000) / rate;
    await sleep(Math.max(0, due - performance.now()));
  }
  connection.close();
}

const lanes = Array.from({ length: LANES }, (_, n) => lane(n));
const samples = [];
for (let at = everyMs; at <= endMs; at += everyMs) {
  await sleep(Math.max(0, begun + at - performance.now()));
  const [size] = await cluster.query(`SELECT pg_relation_size('message') / 1024 AS heap, pg_indexes_size('message') / 1024 AS indexes,
    pg_total_relation_size('tally') / 1024 AS tally, pg_stat_get_dead_tuples('message'::regclass) AS dead, (SELECT count(*) FROM message) AS rows`);
  const sample = Object.fromEntries(Object.entries(size).map(([name, value]) => [name, Number(value)]));
  sample.rss = nodes.map((node) => Math.round(node.rssBytes() / 1e6));
  samples.push(sample);
  console.log(
    `${Math.round(at / 1000)} s | ${(counted.acked / (at / 1000)).toFixed(0)} msgs/s, ${counted.failed} refused | ${sample.rows} rows, ${sample.dead} dead | message ${sample.heap} KiB, indexes ${sample.indexes} KiB, tally ${sample.tally} KiB | nodes ${sample.rss.join(", ")} MB`,
  );
}
await Promise.all(lanes);

const third = Math.floor(samples.length / 3);
const grown = (of) =>
  `${median(samples.slice(third, 2 * third).map(of)).toFixed(0)} → ${median(samples.slice(2 * third).map(of)).toFixed(0)}`;
console.log(
  `${counted.sent} sent, ${counted.acked} acknowledged, ${counted.failed} refused; second third → last third: message ${grown((s) => s.heap)} KiB, indexes ${grown((s) => s.indexes)} KiB, tally ${grown((s) => s.tally)} KiB, dead ${grown((s) => s.dead)}; nodes ${nodes.map((_, n) => `${grown((s) => s.rss[n])} MB`).join(", ")}`,
);
await cluster.stop();
await postgres.stop();
process.exit(0);
