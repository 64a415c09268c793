/** Finds what was meant: the known name nearest to an unknown one, for errors that help. */

/** How many letters must be put in, taken out, changed or swapped with their neighbour to make `b` of `a`. */
function distance(a: string, b: string): number {
  let older: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min((current[j - 1] ?? 0) + 1, (previous[j] ?? 0) + 1, (previous[j - 1] ?? 0) + change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, (older[j - 2] ?? 0) + 1);
      current.push(best);
    }
    older = previous;
    previous = current;
  }
  return previous[b.length] ?? 0;
}

/** The name of `known` that is nearest to `name`, regardless of case, when it is near enough to be what was meant. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  if (name.length > 64) return undefined;
  let best: { name: string; steps: number } | undefined;
  for (const each of known) {
    const steps = distance(name.toLowerCase(), each.toLowerCase());
    if (steps <= Math.max(1, Math.floor(each.length / 3)) && (best === undefined || steps < best.steps)) best = { name: each, steps };
  }
  return best?.name;
}
