/** `millrace audit`: who changed what, from where, and what came of it. */
import type { Answer, Operations } from "@millrace/contract";
import type { Command } from "commander";
import { leaf, limitOption, noteMore } from "../leaf.ts";

type Call = Answer<Operations["ListAudit"]>["calls"][number];

export function auditCommand(program: Command): void {
  leaf<{ limit: number }>(
    program,
    "audit",
    "List the management calls of the last 30 days, newest first.",
    ["millrace audit --limit 20", "millrace audit --json | jq -r '.calls[] | select(.code) | .path'"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, { limit }) => {
      const { items, nextCursor } = await client.list<Call>("ListAudit", "calls", limit);
      if (output.json) {
        output.document({ calls: items, nextCursor });
        return;
      }
      output.table(
        ["AT", "KEY", "FROM", "OPERATION", "OUTCOME", "PATH"],
        items.map((call) => [call.at, call.key.name, call.address, call.operation, call.code ?? String(call.status), call.path]),
      );
      noteMore(output, nextCursor);
    },
  );
}
