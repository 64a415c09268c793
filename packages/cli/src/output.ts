/**
 * How commands speak. Data goes to standard output, everything said about it to standard error. A terminal gets aligned tables;
 * a pipe gets the same columns separated by tabs, whole and without colour; `--json` gets one JSON document.
 */
import Table from "cli-table3";

/** The part of a stream that is written to; the process's own in use, a recording one in tests. */
export interface Sink {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
}

export interface Output {
  readonly json: boolean;
  /** Whether a person looks at standard output. */
  readonly terminal: boolean;
  /** One document of data, as JSON. */
  document(value: unknown): void;
  /** Rows under headings. Cells are shown as given. */
  table(headings: readonly string[], rows: readonly (readonly string[])[]): void;
  /** A thing's fields, one a line. */
  fields(pairs: readonly (readonly [string, string])[]): void;
  /** A line of data as it is. */
  line(text: string): void;
  /** A remark, on standard error. */
  note(text: string): void;
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
}

const bare = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

/** Without tabs and line ends, which would break a row. */
function oneLine(cell: string): string {
  return cell.replace(/[\t\r\n]+/g, " ");
}

/** Writing takes no control characters from messages to a terminal: they could move its cursor or colour. */
function harmless(cell: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  return cell.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}

export function createOutput(options: { json: boolean; out: Sink; err: Sink; env: Readonly<Record<string, string | undefined>> }): Output {
  const { out, err, env } = options;
  const terminal = out.isTTY === true;
  const colours = terminal && (env.NO_COLOR ?? "") === "" && env.TERM !== "dumb";
  const paint = (code: number) => (text: string) => (colours ? `\u001b[${code}m${text}\u001b[0m` : text);
  const bold = paint(1);
  const dim = paint(2);
  const clean = (cell: string) => (terminal ? harmless(oneLine(cell)) : oneLine(cell));

  const table = (headings: readonly string[], rows: readonly (readonly string[])[]): void => {
    if (!terminal) {
      for (const row of [headings, ...rows]) out.write(`${row.map(clean).join("\t")}\n`);
      return;
    }
    const widths = headings.map((heading, i) => Math.max(heading.length, ...rows.map((row) => clean(row[i] ?? "").length)));
    const last = widths.length - 1;
    const before = widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0);
    const room = Math.max((out.columns || 80) - before, 12);
    const drawn = new Table({
      head: headings.map((heading, i) => (i === last ? bold(heading) : bold(heading.padEnd(widths[i] ?? 0)))),
      chars: bare,
      style: { "padding-left": 0, "padding-right": 0, head: [], border: [], compact: true },
    });
    for (const row of rows) {
      drawn.push(
        row.map((cell, i) => {
          const text = clean(cell);
          if (i !== last) return text;
          return text.length > room ? `${text.slice(0, room - 1)}…` : text;
        }),
      );
    }
    for (const line of drawn.toString().split("\n")) out.write(`${line.trimEnd()}\n`);
  };

  return {
    json: options.json,
    terminal,
    document: (value) => void out.write(`${JSON.stringify(value, null, terminal ? 2 : undefined)}\n`),
    table,
    fields(pairs) {
      const width = terminal ? Math.max(...pairs.map(([name]) => name.length)) : 0;
      for (const [name, value] of pairs)
        out.write(terminal ? `${dim(name.padEnd(width))}  ${clean(value)}\n` : `${name}\t${clean(value)}\n`);
    },
    line: (text) => void out.write(`${text}\n`),
    note: (text) => void err.write(`${text}\n`),
    bold,
    dim,
    red: paint(31),
  };
}
