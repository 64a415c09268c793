/** The CPU time of a PostgreSQL server on this machine, all its processes, from Linux's /proc. */
import { readdirSync, readFileSync } from "node:fs";

const TICK_MS = 10;

/** The fields of a process's state after its name; `null` when it is gone. */
function stateOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  } catch {
    return null;
  }
}

/** Milliseconds that the server has used so far, those of sessions and workers that have ended included; 0 where there is no /proc. */
export async function postgresCpuMs(query) {
  const [{ pid }] = await query("SELECT pg_backend_pid() AS pid");
  const server = stateOf(pid)?.[1];
  const own = server === undefined ? null : stateOf(server);
  if (own === null) return 0;
  let ticks = Number(own[11]) + Number(own[12]) + Number(own[13]) + Number(own[14]);
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const state = stateOf(name);
    if (state !== null && state[1] === server) ticks += Number(state[11]) + Number(state[12]);
  }
  return ticks * TICK_MS;
}
