import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type Hmac, knows, parseSecret, protocolVersion, type SigningKey, speaks, verifyEzgh } from "../wire/index.ts";
import { announcement, executionAnswer, stepRecord, task } from "./protocol.ts";

interface Examples {
  taken: unknown[];
  refused: unknown[];
}
interface Vectors {
  protocol: string;
  requests: { name: string; secret: string; headers: Record<string, string>; body: string }[];
  announcements: Examples;
  steps: Examples;
  answers: Examples;
}
const vectors = JSON.parse(readFileSync(new URL("../../../../spec/workflow-protocol.json", import.meta.url), "utf8")) as Vectors;
const hmac: Hmac = (form, key, ...parts) => {
  const digest = createHmac("sha256", key);
  for (const part of parts) digest.update(part);
  return digest.digest(form);
};

describe("the vectors of the workflow protocol", () => {
  it("W6: are of the version that is spoken", () => {
    expect(vectors.protocol).toBe(protocolVersion);
  });

  it.each(vectors.requests)("W1, P4, W6: $name is signed as EZGH and Standard Webhooks sign", ({ secret, headers, body, name }) => {
    const key = parseSecret(secret) as SigningKey;
    const bytes = new TextEncoder().encode(body);
    const at = Number(headers["webhook-timestamp"]) * 1000;
    expect(verifyEzgh(hmac, headers["ezgh-signature"], bytes, [key], at)).toBe(true);
    const text = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
    expect(headers["webhook-signature"]).toBe(`v1,${hmac("base64", key.decoded, text, bytes)}`);
    if (name === "execute") expect(task.parse(JSON.parse(body))).toEqual(JSON.parse(body));
  });

  it.each([
    ["announcements", announcement],
    ["steps", stepRecord],
    ["answers", executionAnswer],
  ] as const)("W2, W6: the server takes and refuses %s as they say", (name, shape) => {
    for (const example of vectors[name].taken) expect([example, shape.safeParse(example).success]).toEqual([example, true]);
    for (const example of vectors[name].refused) expect([example, shape.safeParse(example).success]).toEqual([example, false]);
  });
});

it("W6: within a major version every minor is spoken, and what came with a minor is known from it on", () => {
  expect(["1.0", "1.2", "1.99"].every(speaks)).toBe(true);
  expect(["2.0", "0.9", "1", "1.x", "11.0"].some(speaks)).toBe(false);
  expect(["1.2", "1.10"].every((version) => knows(version, 2))).toBe(true);
  expect(["1.1", "2.2"].some((version) => knows(version, 2))).toBe(false);
});
