/**
 * The cursor of a list (A3): opaque text that holds the place after which to go on, never an offset, so that writes neither repeat
 * nor skip what was there all along. It is bound to its list: what was changed by hand or belongs to another list is a 400.
 */
import { createHash } from "node:crypto";
import { invalid } from "@millrace/contract";

/** The values of the last row that was shown, as the list orders by them. */
export type Place = readonly (string | number)[];

const seal = (list: string, text: string): string => createHash("sha256").update(`${list}\n${text}`).digest("base64url").slice(0, 8);

/** `list` names the list and all that narrows it, such as `keys of 12` or `messages of 7 dead`. */
export function encodeCursor(list: string, place: Place): string {
  const text = JSON.stringify(place);
  return seal(list, text) + Buffer.from(text).toString("base64url");
}

/** The place that a cursor of the same list holds; `null` without one. Throws `invalid_request` naming `cursor`. */
export function decodeCursor(list: string, cursor: string | undefined): Place | null {
  if (cursor === undefined) return null;
  const text = Buffer.from(cursor.slice(8), "base64url").toString("utf8");
  if (cursor.slice(0, 8) !== seal(list, text) || encodeBody(text) !== cursor.slice(8)) {
    throw invalid("cursor", "must be a nextCursor of the same list", cursor);
  }
  return JSON.parse(text) as Place;
}

const encodeBody = (text: string): string => Buffer.from(text).toString("base64url");
