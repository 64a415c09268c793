import { describe, expect, it } from "vitest";
import { createOutput } from "./output.ts";

function recording(options: { terminal: boolean; columns?: number; env?: Record<string, string>; json?: boolean }) {
  const written: string[] = [];
  const noted: string[] = [];
  const output = createOutput({
    json: options.json ?? false,
    out: { write: (text) => written.push(text), isTTY: options.terminal, columns: options.columns ?? 60 },
    err: { write: (text) => noted.push(text) },
    env: options.env ?? {},
  });
  return { output, text: () => written.join(""), notes: () => noted.join("") };
}

const long = "x".repeat(200);
const ESC = "\u001b";

describe("output", () => {
  it("A17: a pipe gets every column whole, separated by tabs, one row a line, without colour", () => {
    const { output, text } = recording({ terminal: false });
    output.table(
      ["NAME", "BODY"],
      [
        ["orders", `${long}\nsecond\tline`],
        ["", "b"],
      ],
    );
    expect(text()).toBe(`NAME\tBODY\norders\t${long} second line\n\tb\n`);
  });

  it("A17: a terminal gets aligned columns, the last one cut to the width, with headings set off", () => {
    const { output, text } = recording({ terminal: true, columns: 40 });
    output.table(
      ["NAME", "BODY"],
      [
        ["orders", long],
        ["a", "b"],
      ],
    );
    const [head = "", first = "", second = ""] = text().split("\n");
    expect(head).toContain(`${ESC}[1m`);
    expect(first).toMatch(/^orders {2}x+…$/);
    expect(first.length).toBeLessThanOrEqual(40);
    expect(second).toMatch(/^a {7}b$/);
  });

  it("A17: NO_COLOR and a dumb terminal take the colour away", () => {
    const environments: Record<string, string>[] = [{ NO_COLOR: "1" }, { TERM: "dumb" }];
    for (const env of environments) {
      const { output, text } = recording({ terminal: true, env });
      output.table(["NAME"], [["orders"]]);
      output.line(output.bold("a") + output.red("b"));
      expect(text()).not.toContain(ESC);
    }
  });

  it("a terminal is not driven by what a message holds", () => {
    const { output, text } = recording({ terminal: true });
    output.table(["BODY"], [[`${ESC}]0;title\u0007${ESC}[2J`]]);
    expect(text().split("\n")[1]).not.toContain(ESC);
  });

  it("A17: data goes to standard output, remarks to standard error; JSON is one document", () => {
    const { output, text, notes } = recording({ terminal: false, json: true });
    output.document({ queues: [] });
    output.note("none yet");
    expect(JSON.parse(text())).toEqual({ queues: [] });
    expect(text().trimEnd()).not.toContain("\n");
    expect(notes()).toBe("none yet\n");
  });
});
