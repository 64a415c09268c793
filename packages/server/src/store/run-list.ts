/**
 * Lists of runs (W3). A page looks at a bounded number of rows, whatever the filter: it may be short although more follow, which `next`
 * says. Only the status has an index of its own, for only few runs are anything but completed.
 */
import type { Tx, Value } from "../db/db.ts";
import { RUN, type RunRow, type RunStatus, runOf } from "./run-rows.ts";

/** How many rows one page looks at. */
const LOOKED_AT = 5_000;

/** Which runs of an app a list shows: newest first, from before number `before` on. Bounds of time are inclusive below, exclusive above. */
export interface RunFilter {
  status?: RunStatus;
  workflow?: string;
  since?: number;
  until?: number;
  /** Found in the id, the workflow, the source or the error; case does not matter. */
  text?: string;
}

/** Which rows a page looks at, and which of those it shows, with the parameters of both. */
function conditions(filter: RunFilter): { looks: string; shows: string; params: Record<string, Value> } {
  const { status, workflow, since, until, text } = filter;
  const shows: string[] = ["1 = 1"];
  const params: Record<string, Value> = {};
  const show = (part: string, name: string, value: Value) => {
    shows.push(part);
    params[name] = value;
  };
  if (status !== undefined) params.status = status;
  if (workflow !== undefined) show("workflow = :workflow", "workflow", workflow);
  if (since !== undefined) show("created_at >= :since", "since", since);
  if (until !== undefined) show("created_at < :until", "until", until);
  if (text !== undefined) {
    const pattern = (part: string): string => `%${part.replace(/[\\%_]/g, "\\$&")}%`;
    const columns = ["id", "workflow", "source", "coalesce(error, '')"];
    // Not every database knows the lower case of every letter: what is written as asked for is found in any case.
    const found = columns.map((column) => `lower(${column}) LIKE :lower ESCAPE '\\' OR ${column} LIKE :text ESCAPE '\\'`);
    params.lower = pattern(text.toLowerCase());
    show(`(${found.join(" OR ")})`, "text", pattern(text));
  }
  // The planner must see that an open run is meant to take the index of those.
  const looks = status === undefined ? "" : `AND status = :status${status === "completed" ? "" : " AND status <> 'completed'"}`;
  return { looks, shows: shows.join(" AND "), params };
}

/** Every cold verb that lists runs. */
export const runListVerbs = {
  /** A page of an app's runs, newest first, from before number `before` on; `next` goes on after it, `null` at the end. */
  async listRuns(
    tx: Tx,
    appNo: number,
    page: { filter: RunFilter; before: number | null; limit: number },
  ): Promise<{ runs: RunRow[]; next: number | null }> {
    const { looks, shows, params } = conditions(page.filter);
    const before = page.before ?? Number.MAX_SAFE_INTEGER;
    const looked = `SELECT no FROM run WHERE app_no = :appNo AND no < :before ${looks} ORDER BY no DESC LIMIT :rows`;
    const range = { appNo, before, rows: LOOKED_AT, ...(params.status === undefined ? {} : { status: params.status }) };
    const [last] = await tx.query(`SELECT min(l.no) AS no, count(*) AS n FROM (${looked}) AS l`, range);
    if (last === undefined || last.no === null) return { runs: [], next: null };
    const oldest = Number(last.no);
    const rows = await tx.query(
      `SELECT ${RUN} FROM run WHERE app_no = :appNo AND no < :before AND no >= :oldest ${looks} AND ${shows} ORDER BY no DESC LIMIT :limit`,
      { appNo, before, oldest, limit: page.limit + 1, ...params },
    );
    const runs = rows.slice(0, page.limit).map(runOf);
    if (rows.length > page.limit) return { runs, next: runs.at(-1)?.no ?? null };
    return { runs, next: Number(last.n) === LOOKED_AT ? oldest : null };
  },
};
