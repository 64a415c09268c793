/** Facts about the machine, and what processes use of it. Linux tells through /proc; elsewhere `ps` does. */
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";

const TICKS = 100;

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

/** CPU time that a process has used so far, all its threads, in milliseconds. */
export function cpuMs(pid) {
  if (existsSync(`/proc/${pid}/stat`)) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS;
  }
  const [minutes, seconds] = execFileSync("ps", ["-o", "time=", "-p", String(pid)])
    .toString()
    .trim()
    .split(":")
    .slice(-2);
  return (Number(minutes) * 60 + Number(seconds)) * 1000;
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
