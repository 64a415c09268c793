/** Pages of the Basaltic door (A3): a limit, and the marker after which to go on. */
import { invalid } from "@millrace/contract";
import { decodeCursor, encodeCursor } from "../cursor.ts";

/** How many entries a page holds unless asked. */
export const PAGE = 50;

/** The place that a marker of the same list holds; `null` without one. Throws `invalid_request` naming `marker`. */
export function readMarker(list: string, marker: string | undefined): string | number | null {
  try {
    return decodeCursor(list, marker)?.[0] ?? null;
  } catch {
    throw invalid("marker", "must be the marker of a page of the same list", marker);
  }
}

/** What stands beside a page: how many there are in all, and the marker after its last entry if there is more. */
export function pageMeta(
  list: string,
  { total, limit, last }: { total: number; limit: number; last: string | number | null },
): { total: number; limit: number; marker: string | null; has_more: boolean } {
  return { total, limit, marker: last === null ? null : encodeCursor(list, [last]), has_more: last !== null };
}
