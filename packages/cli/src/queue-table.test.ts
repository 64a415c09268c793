import { expect, it } from "vitest";
import { queueTable } from "./commands/queues.ts";

const queue = (name: string, database: string) =>
  ({
    id: `id of ${name}`,
    name,
    type: "standard",
    paused: false,
    visibilityTimeoutSeconds: 60,
    retentionSeconds: 86_400,
    database,
  }) as const;

it("A14, A17: a list tells on which databases queues are, where any is on another than the default one", () => {
  const [head, rows] = queueTable([queue("here", "default"), queue("there", "eu")]);
  expect(head).toEqual(["NAME", "TYPE", "STATE", "VISIBILITY", "RETENTION", "DATABASE", "ID"]);
  expect(rows).toEqual([
    ["here", "standard", "active", "1m", "1d", "default", "id of here"],
    ["there", "standard", "active", "1m", "1d", "eu", "id of there"],
  ]);
  const [plain] = queueTable([queue("here", "default")]);
  expect(plain).not.toContain("DATABASE");
});
