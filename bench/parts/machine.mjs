/** Facts about the machine, what processes use of it, and how to wait on it. Linux tells through /proc; elsewhere `ps` does. */
import { execFileSync } from "node:child_process";
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";

/** The unit of times in /proc. */
const TICK_MS = 10;

/** Cores, memory, versions; no names of hosts or people. */
export function machineFacts(postgresVersion) {
  const processors = cpus();
  return {
    cores: processors.length,
    processor: processors[0]?.model ?? "unknown",
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    os: `${process.platform} ${process.arch}`,
    node: process.version,
    ...(postgresVersion === null ? {} : { postgres: postgresVersion }),
  };
}

/**
 * What else was going on: the load average that the run began with, and how often a second an append of 16 KiB can be flushed. On a
 * machine that is busy otherwise the absolute figures say little.
 */
export function machineState() {
  const home = mkdtempSync(join(tmpdir(), "millrace-bench-disk-"));
  const file = openSync(join(home, "log"), "a");
  const block = Buffer.alloc(16_384, 1);
  const end = performance.now() + 1000;
  let flushes = 0;
  for (; performance.now() < end; flushes += 1) {
    writeSync(file, block);
    fdatasyncSync(file);
  }
  closeSync(file);
  rmSync(home, { recursive: true });
  return { loadAverage: Number((loadavg()[0] ?? 0).toFixed(2)), flushesPerSecond: flushes };
}

/** The fields of a process's state after its name; `null` when it is gone, and where there is no /proc. */
function stateOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  } catch {
    return null;
  }
}

const ticksOf = (state) => Number(state[11]) + Number(state[12]);

/** CPU time that a process has used so far, all its threads, in milliseconds. */
export function cpuMs(pid) {
  const state = stateOf(pid);
  if (state !== null) return ticksOf(state) * TICK_MS;
  const [minutes, seconds] = execFileSync("ps", ["-o", "time=", "-p", String(pid)])
    .toString()
    .trim()
    .split(":")
    .slice(-2);
  return (Number(minutes) * 60 + Number(seconds)) * 1000;
}

/**
 * CPU time that a PostgreSQL server on this machine has used so far, all its processes, those that have ended included, in milliseconds; 0
 * where there is no /proc.
 */
export async function postgresCpuMs(query) {
  const [{ pid }] = await query("SELECT pg_backend_pid() AS pid");
  const server = stateOf(pid)?.[1];
  const own = server === undefined ? null : stateOf(server);
  if (own === null) return 0;
  let ticks = ticksOf(own) + Number(own[13]) + Number(own[14]);
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const state = stateOf(name);
    if (state !== null && state[1] === server) ticks += ticksOf(state);
  }
  return ticks * TICK_MS;
}

/** Memory of a process that is resident, in bytes. */
export function rssBytes(pid) {
  return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)]).toString()) * 1024;
}

/** The middle value; of an even count the lower one. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks `holds` every `everyMs` until it does; throws that `what` took too long after `mostMs`. */
export async function until(what, holds, { everyMs, mostMs }) {
  const end = performance.now() + mostMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`${what} took longer than ${mostMs / 1000} s`);
    await sleep(everyMs);
  }
}
