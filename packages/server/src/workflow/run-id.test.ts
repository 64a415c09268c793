import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { runIdOf } from "./run-id.ts";

const ids = [
  "01999f3b-0000-7000-8000-000000000001",
  "01999f3b-0000-7000-8000-000000000002",
  "01999f3b-0000-7000-8000-000000000003",
] as const;

it("W12: a run's id is the UUIDv8 of the SHA-256 of project, queue and message", () => {
  const hash = createHash("sha256")
    .update(ids.map((id) => `${id}\n`).join(""))
    .digest("hex");
  const id = runIdOf(...ids);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const plain = id.replaceAll("-", "");
  // All but the six bits that say what kind of UUID it is.
  expect(plain.slice(0, 12) + plain.slice(13, 16) + plain.slice(17)).toBe(hash.slice(0, 12) + hash.slice(13, 16) + hash.slice(17, 32));
  expect(runIdOf(...ids)).toBe(id);
});

it("W12: another project, queue or message is another run", () => {
  const [project, queue, message] = ids;
  const all = [runIdOf(...ids), runIdOf(queue, project, message), runIdOf(project, message, queue), runIdOf(project, queue, project)];
  expect(new Set(all).size).toBe(4);
});
