/** What `millrace doctor` makes of a cluster's database: pure judgements, each with what to do about it. */
import type { Examination, NamedDatabase } from "../store/examination-types.ts";
import type { NodeRow } from "../store/types.ts";

/** `bad` breaks a promise, `poor` costs speed or will become bad, `good` says what was looked at. */
export interface Finding {
  level: "good" | "poor" | "bad";
  check: string;
  found: string;
  advice: string | null;
}

/** What the program that asks knows of itself. */
export interface Expected {
  schema: number;
  /** Connections that each node may hold. */
  poolSize: number;
}

/** A node that was seen within this time lives. */
const ALIVE_MS = 10_000;
/** Clocks of nodes sign requests, and endpoints refuse signatures that are minutes off. */
const SKEW_MS = { poor: 1_000, bad: 60_000 };
const OLD_MS = { poor: 60_000, bad: 600_000 };
/** A hot table with more dead rows than this, and than twice the living ones, is not vacuumed in time. */
const DEAD_ROWS = 100_000;

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;

/** Every judgement, the worst ones first. */
export function judge(seen: Examination, expected: Expected): Finding[] {
  const findings = [
    ...serverOf(seen),
    ...durabilityOf(seen),
    ...schemaOf(seen, expected),
    ...nodesOf(seen),
    ...clocksOf(seen),
    ...vacuumOf(seen),
    ...connectionsOf(seen, expected),
  ];
  const rank = { bad: 0, poor: 1, good: 2 };
  return findings.sort((a, b) => rank[a.level] - rank[b.level]);
}

function serverOf({ serverVersion }: Examination): Finding[] {
  const found = `PostgreSQL ${Math.floor(serverVersion / 10_000)}.${serverVersion % 10_000}`;
  if (serverVersion >= 150_000) return [{ level: "good", check: "server", found, advice: null }];
  return [{ level: "poor", check: "server", found, advice: "Millrace is tested with PostgreSQL 15 and newer." }];
}

function durabilityOf({ settings }: Examination): Finding[] {
  const lost = ["fsync", "full_page_writes"].filter((name) => settings[name] === "off");
  if (lost.length > 0)
    return [
      { level: "bad", check: "durability", found: `${lost.join(" and ")} off`, advice: "A power cut loses what was answered. Turn it on." },
    ];
  const standby = settings.synchronous_standby_names ?? "";
  return standby === ""
    ? [
        {
          level: "good",
          check: "durability",
          found: "flushed on this server; without a synchronous standby a promotion may lose the last moments",
          advice: null,
        },
      ]
    : [{ level: "good", check: "durability", found: `flushed here and on ${standby}`, advice: null }];
}

function schemaOf({ schema }: Examination, expected: Expected): Finding[] {
  const found = schema === null ? "none yet" : `version ${schema}`;
  if (schema === expected.schema) return [{ level: "good", check: "schema", found, advice: null }];
  if (schema === null || schema < expected.schema)
    return [{ level: "poor", check: "schema", found, advice: `This program brings it to ${expected.schema} when it starts.` }];
  return [{ level: "bad", check: "schema", found, advice: `This program knows schemas up to ${expected.schema}: use the newer one.` }];
}

/** Whether every node of the default database takes part on another one: who does not may own its duties' slots and not do them. */
export function partakersOf(home: readonly NodeRow[], there: readonly NodeRow[]): Finding[] {
  const lives = ({ seenAgoMs }: NodeRow) => seenAgoMs < ALIVE_MS;
  const present = new Set(there.filter(lives).map(({ id }) => id));
  const advice = "Start every node with the same databases.";
  return home
    .filter((node) => lives(node) && !present.has(node.id))
    .map(({ name }): Finding => ({ level: "bad", check: "nodes", found: `${name} does not take part`, advice }));
}

/**
 * Whether a database is what its address is given for, as servers ask at their start. `known` is what the default one knows of that name,
 * `null` for the default one itself.
 */
export function identityOf(known: NamedDatabase | null | undefined, { itself, schema }: Examination): Finding[] {
  const isRight = itself === null ? known === null || schema === null : itself.id === known?.id;
  if (isRight) return [];
  const found = itself === null ? "it is the default database of an installation" : `it is the database that was named ${itself.name}`;
  return [{ level: "bad", check: "databases", found, advice: "No server starts with this address. Give the right one." }];
}

/** What to say of databases that hold queues and that this program was not told of. */
export const unnamed = (names: readonly string[]): Finding[] =>
  names.map((name) => ({
    level: "bad",
    check: "databases",
    found: `${name} is not configured`,
    advice: "Give its address, or none of its queues can be reached from here.",
  }));

function nodesOf({ nodes, orphanedSlots }: Examination): Finding[] {
  const living = nodes.filter(({ seenAgoMs }) => seenAgoMs < ALIVE_MS);
  if (living.length === 0) return [{ level: "poor", check: "nodes", found: "none is running", advice: "Start one: millrace server." }];
  const findings: Finding[] = [{ level: "good", check: "nodes", found: `${living.length} running`, advice: null }];
  const versions = [...new Set(living.map(({ version }) => version))].sort();
  if (versions.length > 1)
    findings.push({
      level: "poor",
      check: "versions",
      found: versions.join(", "),
      advice: "Finish the upgrade: all nodes should run one.",
    });
  for (const { name, seenAgoMs, slots } of nodes)
    if (seenAgoMs >= ALIVE_MS && slots > 0)
      findings.push({ level: "poor", check: "nodes", found: `${name} was last seen ${seconds(seenAgoMs)} ago`, advice: null });
  const counts = living.map(({ slots }) => slots);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const spread = `${least === most ? least : `${least} to ${most}`} a node`;
  if (orphanedSlots > 0)
    findings.push({
      level: "bad",
      check: "slots",
      found: `${orphanedSlots} without a node`,
      advice: "Look again in 15 s; then read the nodes' logs.",
    });
  else if (most - least > 1)
    findings.push({ level: "poor", check: "slots", found: spread, advice: "They move one by one. Look again in a minute." });
  else findings.push({ level: "good", check: "slots", found: spread, advice: null });
  return findings;
}

function clocksOf({ nodes, skewMs }: Examination): Finding[] {
  const clocks = [
    { name: "this machine", ms: skewMs },
    ...nodes.filter(({ seenAgoMs }) => seenAgoMs < ALIVE_MS).map((node) => ({ name: node.name, ms: node.skewMs })),
  ];
  const worst = clocks.reduce((a, b) => (Math.abs(b.ms) > Math.abs(a.ms) ? b : a));
  const found = `${worst.name} is ${seconds(Math.abs(worst.ms))} ${worst.ms < 0 ? "behind" : "ahead of"} the database`;
  if (Math.abs(worst.ms) < SKEW_MS.poor) return [{ level: "good", check: "clocks", found, advice: null }];
  return [
    {
      level: Math.abs(worst.ms) < SKEW_MS.bad ? "poor" : "bad",
      check: "clocks",
      found,
      advice: "Leases don't suffer, they go by the database's time; signatures do. Run a time service.",
    },
  ];
}

function vacuumOf({ settings, tables, oldestTransaction }: Examination): Finding[] {
  const findings: Finding[] = [];
  if (settings.autovacuum === "off" || settings.track_counts === "off")
    findings.push({
      level: "bad",
      check: "vacuum",
      found: "autovacuum is off",
      advice: "The message table grows without end. Turn it on.",
    });
  else if (Number(settings.autovacuum_naptime ?? 60) > 5)
    findings.push({
      level: "poor",
      check: "vacuum",
      found: `autovacuum_naptime is ${settings.autovacuum_naptime} s`,
      advice: "Set it to 1s: the message table empties and fills all day.",
    });
  for (const { name, live, dead } of tables)
    if (dead > DEAD_ROWS && dead > 2 * live)
      findings.push({
        level: "poor",
        check: "vacuum",
        found: `${name} has ${dead} dead rows beside ${live}`,
        advice: "Autovacuum can't keep up, or a transaction holds it back.",
      });
  if (oldestTransaction !== null && oldestTransaction.ms >= OLD_MS.poor)
    findings.push({
      level: oldestTransaction.ms < OLD_MS.bad ? "poor" : "bad",
      check: "vacuum",
      found: `a transaction has been open for ${seconds(oldestTransaction.ms)}: ${oldestTransaction.by}`,
      advice: "Nothing that was deleted since can be vacuumed. End it.",
    });
  return findings.length > 0 ? findings : [{ level: "good", check: "vacuum", found: "keeps up", advice: null }];
}

function connectionsOf({ connections, nodes }: Examination, { poolSize }: Expected): Finding[] {
  const living = Math.max(1, nodes.filter(({ seenAgoMs }) => seenAgoMs < ALIVE_MS).length);
  const wanted = living * poolSize;
  const { used, elsewhere, most } = connections;
  const others = elsewhere === 0 ? "" : ` (${elsewhere} of other databases)`;
  const found = `${used} of ${most} in use${others}, ${living} times ${poolSize} wanted`;
  // Superusers keep three for themselves.
  if (wanted + elsewhere <= most - 3) return [{ level: "good", check: "connections", found, advice: null }];
  return [{ level: "poor", check: "connections", found, advice: "Raise max_connections, or lower MILLRACE_POOL_SIZE." }];
}
