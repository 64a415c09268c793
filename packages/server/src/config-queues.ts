/**
 * The queues that a `millrace.yaml` or `gigadrive.yaml` declares (`services.queues.<name>`), with the place in the file of every fault.
 * What the section means is the contract's to say; this module only knows YAML.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readDeclaredQueues } from "@millrace/contract";
import { isAlias, isMap, isNode, LineCounter, parseDocument } from "yaml";

/** Where the section stands in the file. */
const SECTION = ["services", "queues"];

/** What a file declares. */
export interface QueueFile {
  /** The section as it was written; an empty one when the file has none. */
  section: unknown;
  /** One sentence per fault, each with file, line and column. */
  problems: string[];
  /** A sentence about a path in the section, such as `["emails", "retention"]`, with its place in the file. */
  at(path: readonly string[], message: string): string;
}

/** The file of queues in a directory: `millrace.yaml`, else `gigadrive.yaml`; `undefined` when there is neither. */
export function findQueueFile(directory: string): string | undefined {
  return ["millrace.yaml", "gigadrive.yaml"].find((name) => existsSync(join(directory, name)));
}

/** Reads a file. Throws what the file system throws; everything wrong with the text is a problem. */
export function readQueueFile(path: string): QueueFile {
  const lines = new LineCounter();
  const document = parseDocument(readFileSync(path, "utf8"), { lineCounter: lines, merge: true });
  const placed = (offset: number | undefined, message: string): string => {
    if (offset === undefined) return `${path}: ${message}`;
    const { line, col } = lines.linePos(offset);
    return `${path}:${line}:${col}: ${message}`;
  };
  const at: QueueFile["at"] = (within, message) => {
    const whole = [...SECTION, ...within].join(".");
    // The place of the innermost name that the file has: a name's own, not its value's. Names may hold dots.
    let place: number | undefined;
    let inside: unknown = document.contents;
    for (let left = whole; left !== ""; ) {
      if (isAlias(inside)) inside = inside.resolve(document);
      const fits = (key: unknown): boolean => isNode(key) && (left === String(key) || left.startsWith(`${String(key)}.`));
      const pairs = isMap(inside) ? inside.items.filter(({ key }) => fits(key)) : [];
      const [pair] = pairs.sort((a, b) => String(b.key).length - String(a.key).length);
      if (pair === undefined || !isNode(pair.key)) break;
      place = pair.key.range?.[0];
      left = left.slice(String(pair.key).length + 1);
      inside = pair.value;
    }
    return placed(place, `${whole}: ${message}`);
  };
  const faults = document.errors.map(({ message, pos }) => placed(pos[0], `is not valid YAML: ${message.split("\n")[0]}`));
  if (faults.length > 0) return { section: {}, problems: faults, at };
  let value: unknown;
  try {
    // Aliases that grow without bound are refused here.
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return { section: {}, problems: [placed(undefined, error instanceof Error ? error.message : String(error))], at };
  }
  const section = SECTION.reduce<unknown>(
    (inside, name) => (typeof inside === "object" && inside !== null ? (inside as Record<string, unknown>)[name] : undefined),
    value,
  );
  const { problems } = readDeclaredQueues(section);
  return { section: section ?? {}, problems: problems.map((problem) => at(problem.path, problem.message)), at };
}
