/** What a verb reads for many runs of one transaction and needs to read only once. */

/** What was read, by a name for it. */
export type Remembered = Map<string, Promise<unknown>>;

/** Answers what `read` reads, which is asked once per name. */
export function remembered<T>(memory: Remembered, name: string, read: () => Promise<T>): Promise<T> {
  const known = memory.get(name) as Promise<T> | undefined;
  if (known !== undefined) return known;
  const reading = read();
  memory.set(name, reading);
  return reading;
}
