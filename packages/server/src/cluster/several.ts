/**
 * A node on several databases (A14). Each database shares out its own work: the lanes of its queues and its duties are owned there, under
 * fences that it checks itself. So a database that is away takes nothing from what the others have.
 */
import { databaseOf } from "../store/database-numbers.ts";
import type { Changes } from "./changes.ts";
import type { Ownership } from "./ownership.ts";
import { queueOfLane } from "./tenure.ts";

/** Ownership over databases, by number: a lane is owned on the database of its queue, everything else on the default one. */
export function ownershipOver(of: ReadonlyMap<number, Ownership>): Ownership {
  const [home] = of.values();
  if (home === undefined) throw new Error("There is no database.");
  if (of.size === 1) return home;
  return {
    fence(key) {
      const queueNo = queueOfLane(key);
      return ((queueNo === null ? undefined : of.get(databaseOf(queueNo))) ?? home).fence(key);
    },
    onChange(listener) {
      const stops = [...of.values()].map((ownership) => ownership.onChange(listener));
      return () => {
        for (const stop of stops) stop();
      };
    },
  };
}

/** What changed on any of several databases. */
export function changesOver(all: readonly Changes[]): Changes {
  return {
    onChange(listener) {
      const stops = all.map((changes) => changes.onChange(listener));
      return () => {
        for (const stop of stops) stop();
      };
    },
    close() {
      for (const changes of all) changes.close();
    },
  };
}
