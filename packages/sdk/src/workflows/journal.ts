/**
 * What earlier executions left of a run, as a replay needs it: each step by its id, and the finished ones in the order in which the code
 * learned of them. Live ends are added behind, so that there is one order, whether a step ended now or a week ago.
 */
import type { JournalStep } from "@millrace/contract/wire";

/** A step as errors name it: `charge (run)`. */
export const named = ({ id, type }: Pick<JournalStep, "id" | "type">): string => `${id} (${type})`;

/** Whether a step is over, however it ended. */
export const isFinished = ({ status }: Pick<JournalStep, "status">): boolean => status !== "pending" && status !== "retrying";

const place = ({ order }: JournalStep): number => order ?? Number.POSITIVE_INFINITY;

/** Steps in the order in which the code learns of their ends; those without a place keep theirs among each other, behind the others. */
export const inOrder = (steps: readonly JournalStep[]): readonly JournalStep[] =>
  steps.length < 2 ? steps : [...steps].sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));

/** The journal of one execution. */
export interface Journal {
  find(id: string): JournalStep | undefined;
  /** The code came to this step. */
  reach(id: string): void;
  /** The finished step that the code is to learn of next; with `skipping`, the first of them that it came to. */
  next(skipping: boolean): JournalStep | undefined;
  /** The code learned of it. */
  told(step: JournalStep): void;
  /** A step ended now, and is recorded. Of several ends of one step the first counts. */
  ended(step: JournalStep): void;
  /** A recorded step that the code has not come to. */
  missing(): JournalStep | undefined;
  /** Whether the code was told of the run's cancellation by some step. */
  knowsCancelled(isCancelled: (step: JournalStep) => boolean): boolean;
}

/** Opens a journal; `steps` in the order in which they were first recorded. */
export function openJournal(steps: readonly JournalStep[]): Journal {
  const known = new Map(steps.map((step) => [step.id, step]));
  const unreached = new Map(known);
  const line = [...inOrder(steps.filter(isFinished))];
  const learned = new Set<string>();
  let at = 0;

  return {
    find: (id) => known.get(id),
    reach: (id) => void unreached.delete(id),
    next(skipping) {
      while (at < line.length && learned.has((line[at] as JournalStep).id)) at += 1;
      if (!skipping || !unreached.has(line[at]?.id ?? "")) return line[at];
      return line.slice(at).find(({ id }) => !unreached.has(id) && !learned.has(id));
    },
    told: ({ id }) => void learned.add(id),
    ended: (step) => void line.push(step),
    missing() {
      if (unreached.size === 0) return undefined;
      return line.find(({ id }) => unreached.has(id)) ?? unreached.values().next().value;
    },
    knowsCancelled: (isCancelled) => line.some(isCancelled),
  };
}
