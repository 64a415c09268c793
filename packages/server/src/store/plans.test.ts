import { join } from "node:path";
import { scratch } from "@millrace/testkit";
import { describe, expect, it } from "vitest";
import type { Statement } from "../db/db.ts";
import { replaceNamed } from "../db/named.ts";
import { openSqlite } from "../db/sqlite.ts";
import { migrate } from "./migrate.ts";
import { statements } from "./statements.ts";

/** The text that decides which rows a statement looks at. */
function lookUp(statement: Statement): string | null {
  if (statement.kind === "select") return statement.select.replace("{lock}", "");
  if (statement.kind === "take") return statement.pick.replace("{also}", "").replace("{skipLocked}", "").replace("{greatest}", "max");
  if (statement.kind === "write") return `SELECT 1 FROM ${statement.table ?? "message"} WHERE ${statement.where}`;
  return null;
}

describe("the plans of SQLite", () => {
  it("STORE-09, Q18: every hot statement finds its rows by an index; claims and expiry by those of the line and of the expiry", async () => {
    const db = openSqlite({ path: join(scratch("plans").path, "store.db"), statements, now: Date.now });
    await migrate(db);
    const used = new Map<string, string>();
    for (const [name, statement] of Object.entries(statements) as [string, Statement][]) {
      const text = lookUp(statement);
      if (text === null) continue;
      const plan = db.raw.prepare(`EXPLAIN QUERY PLAN ${replaceNamed(text, () => "1")}`).all() as { detail: string }[];
      const details = plan.map(({ detail }) => detail).join("; ");
      expect(details, name).not.toMatch(/SCAN (m|b|message|d|dedup|t)\b/);
      // The first members of a limited group are put in order for whoever looks at states: of two lists that are bounded.
      if (name !== "state.last") expect(details, name).not.toMatch(/TEMP B-TREE FOR ORDER BY/);
      used.set(name, details);
    }
    expect(used.get("claim.heads")).toContain("message_line (queue_no=? AND line_at>? AND line_at<?)");
    expect(used.get("claim.next")).toContain("message_group");
    expect(used.get("group.arrivals")).toContain("message_later (queue_no=? AND later_at>? AND later_at<?)");
    expect(used.get("queue.waits")).toContain("message_queue");
    expect(used.get("sweep.expired")).toContain("message_expiry (expires_at<?)");
    expect(used.get("sweep.lapsed")).toContain("message_final (final_at<?)");
    await db.close();
  });
});
