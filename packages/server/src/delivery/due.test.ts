import fc from "fast-check";
import { expect, it } from "vitest";
import { createDue } from "./due.ts";

it("answers the earliest entry after any sequence of additions, moves and removals", () => {
  const step = fc.record({ entry: fc.nat(9), at: fc.nat(50), remove: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const due = createDue<{ at: number; slot: number }>();
      const entries = Array.from({ length: 10 }, () => ({ at: 0, slot: -1 }));
      const model = new Map<number, number>();
      for (const { entry, at, remove } of steps) {
        const each = entries[entry] as { at: number; slot: number };
        if (remove) {
          due.remove(each);
          model.delete(entry);
        } else {
          due.put(each, at);
          model.set(entry, at);
        }
        expect(due.size).toBe(model.size);
        expect(due.first()?.at).toBe(model.size === 0 ? undefined : Math.min(...model.values()));
      }
    }),
  );
});
