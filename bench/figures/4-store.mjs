/** Figure 4: what putting many callers into one transaction brings on PostgreSQL, beside a statement and a commit for each step. */
import { median } from "../parts/machine.mjs";

export const number = 4;
export const method =
  "The store without HTTP in one process, durable, messages of 1,000 bytes: sends by 256 callers at once, and lives (single sends; claims of a hundred by 8 consumers; acknowledgements). The limit is a plain table used over 16 connections without coalescing, in the same process on the same database in turn: an INSERT each for sends; INSERT, UPDATE of the first one due (SKIP LOCKED) and DELETE, each a commit of its own, for lives. SQLite's store is in bench/store.ts.";

const CONNECTIONS = 16;

export async function run(bench) {
  const url = await bench.freshDatabase();
  if (url === null) return [];
  const store = bench.child("store-jobs.ts", ["--import", "tsx", "--conditions=@millrace/source"]);
  await store.call("open", { url, connections: CONNECTIONS });
  const { seconds } = bench;
  const measured = async (job, args = {}) => {
    await store.call("empty");
    return store.call(job, { seconds, ...args });
  };
  // Connections are made and statements prepared before anything counts.
  for (const job of ["bareLives", "lives"]) await store.call(job, { connections: CONNECTIONS, seconds: 1 });
  const rounds = await bench.rounds(async () => ({
    bareSends: await measured("bareSends", { connections: CONNECTIONS }),
    sends: await measured("sends"),
    bareLives: await measured("bareLives", { connections: CONNECTIONS }),
    lives: await measured("lives"),
  }));
  const row = (what, key, bare, least) => {
    const ratio = median(rounds.map((round) => round[key] / round[bare]));
    return {
      what,
      unit: "msgs/s",
      limit: median(rounds.map((round) => round[bare])),
      measured: median(rounds.map((round) => round[key])),
      ratio,
      target: `≥ ${least}`,
      met: ratio >= least,
    };
  };
  return [
    row("the store: sends, beside uncoalesced INSERTs", "sends", "bareSends", 5),
    row("the store: lives, beside uncoalesced statements", "lives", "bareLives", 3),
  ];
}
