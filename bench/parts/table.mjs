/** The one table of a run. A row is plain data (`docs/performance.md` is made of the same), so that `--json` prints it as it is. */

const columns = [
  ["figure", (row) => String(row.figure)],
  ["engine", (row) => row.engine],
  ["what", (row) => row.what],
  ["limit", (row) => shown(row.limit, row.limitUnit ?? row.unit)],
  ["measured", (row) => shown(row.measured, row.unit)],
  ["ratio", (row) => (row.ratio === null ? "–" : row.ratio.toFixed(2))],
  ["target", (row) => row.target],
  ["", (row) => (row.error !== undefined ? "FAILED" : row.met === null ? "" : row.met ? "met" : "missed")],
  ["note", (row) => row.note ?? ""],
];

/** A number with its unit, as short as it can be said: 41,200 msgs/s, 2.4 ms. */
export function shown(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits })} ${unit}`;
}

/** The table as Markdown that lines up as plain text too. */
export function table(rows) {
  const cells = [columns.map(([name]) => name), ...rows.map((row) => columns.map(([, cell]) => cell(row)))];
  const widths = columns.map((_, at) => Math.max(3, ...cells.map((line) => line[at].length)));
  const lines = cells.map((line) => `| ${line.map((cell, at) => cell.padEnd(widths[at])).join(" | ")} |`);
  lines.splice(1, 0, `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`);
  return lines.join("\n");
}
