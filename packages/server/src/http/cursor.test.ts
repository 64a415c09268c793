import { Fault } from "@millrace/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeCursor, encodeCursor } from "./cursor.ts";

describe("cursor", () => {
  it("A3: a cursor gives back the place it was made of and says nothing readable", () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.oneof(fc.string(), fc.integer()), { maxLength: 4 }), (list, place) => {
        const cursor = encodeCursor(list, place);
        expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor(list, cursor)).toEqual(place);
      }),
    );
    expect(decodeCursor("a", undefined)).toBeNull();
  });

  it("A3: a cursor that was changed, cut or belongs to another list is a 400 naming it", () => {
    const cursor = encodeCursor("keys of 1", [12, "orders"]);
    const bad = ["", "x", cursor.slice(1), `${cursor}A`, `${cursor}=`, `${cursor}!`, encodeCursor("keys of 2", [12, "orders"])];
    for (let at = 0; at < cursor.length; at += 1) bad.push(cursor.slice(0, at) + (cursor[at] === "A" ? "B" : "A") + cursor.slice(at + 1));
    for (const each of bad) {
      try {
        decodeCursor("keys of 1", each);
        expect.fail(`${each} was taken`);
      } catch (error) {
        expect(error).toBeInstanceOf(Fault);
        expect((error as Fault).code).toBe("invalid_request");
        expect((error as Fault).details?.path).toBe("cursor");
      }
    }
  });
});
