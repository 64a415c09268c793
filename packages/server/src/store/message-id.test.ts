import { describe, expect, it } from "vitest";
import { layOut } from "./batch.ts";
import { messageId, readMessageId } from "./message-id.ts";

describe("message ids", () => {
  it("Q3: an id is a UUIDv7 of the time of sending and leads back to what it was made of", () => {
    for (const sentAt of [0, 1_796_072_696_705, 2 ** 47])
      for (const origin of [1, 2, 4_294_967_295, 4_294_967_296, Number.MAX_SAFE_INTEGER]) {
        const id = messageId(sentAt, origin);
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(readMessageId(id.toUpperCase())).toEqual({ sentAt, origin });
      }
  });

  it("ids of one instant differ, and other UUIDs are not taken for ids", () => {
    expect(new Set(Array.from({ length: 1000 }, (_, i) => messageId(5, i))).size).toBe(1000);
    for (const text of ["", "x", "018f4e1a-0000-4000-8000-000000000000", "0190163d-8694-739b-aea5-966c26f8ad91"])
      expect(readMessageId(text)).toBeNull();
  });
});

describe("batches", () => {
  const unit = (head: string, followers: number) => ({ head, followers: Array.from({ length: followers }, (_, i) => `${head}${i}`) });
  const sizes = (units: ReturnType<typeof unit>[], batches: number, size: number) =>
    layOut(units, batches, size).map((batch) => batch.map(({ followers }) => 1 + followers.length));

  it("Q9: heads come first, room is shared evenly, no group is split, and no batch is larger than asked", () => {
    expect(sizes([unit("a", 50)], 5, 10)).toEqual([[10]]);
    expect(sizes([unit("a", 9), unit("b", 9)], 1, 10)).toEqual([[5, 5]]);
    expect(sizes([unit("a", 9), unit("b", 9)], 2, 10)).toEqual([[10], [10]]);
    expect(sizes([unit("a", 0), unit("b", 9), unit("c", 1)], 1, 10)).toEqual([[1, 7, 2]]);
    expect(
      sizes(
        Array.from({ length: 12 }, () => unit("x", 0)),
        3,
        10,
      ).map((batch) => batch.length),
    ).toEqual([6, 6]);
    expect(layOut([], 3, 10)).toEqual([]);
  });
});
