import { readFileSync } from "node:fs";
import { errorStatus, type Operation, type OperationName, operations, routes } from "@millrace/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { type Door, openDoor } from "./door.suite.ts";
import { createOpenapi } from "./openapi.ts";
import { answerExamples, bodyExamples } from "./openapi-examples.ts";

const root = new URL("../../../../", import.meta.url);
const version = (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version;
const names = Object.keys(operations) as OperationName[];

interface Documented {
  operationId: string;
  responses: Record<string, { content?: Record<string, { example?: unknown; examples?: Record<string, unknown> }> }>;
  requestBody?: { content: Record<string, { example?: unknown }> };
}

describe("the OpenAPI document", () => {
  const document = createOpenapi(version) as { openapi: string; paths: Record<string, Record<string, Documented>>; security: unknown };

  it("A1: spec/openapi.json is what the server serves (npm run openapi writes it)", () => {
    expect(JSON.parse(readFileSync(new URL("spec/openapi.json", root), "utf8"))).toEqual(JSON.parse(JSON.stringify(document)));
  });

  it("A1: it is OpenAPI 3.1 and has every operation with every error of its own, an example of each body and answer, and security", () => {
    expect(document.openapi).toBe("3.1.0");
    expect(document.security).toEqual([{ key: [] }, { token: [] }]);
    for (const name of names) {
      const operation: Operation = operations[name];
      const found = document.paths[routes[name].path]?.[routes[name].method.toLowerCase()];
      expect(found?.operationId).toBe(name);
      for (const code of operation.errors) {
        const answer = found?.responses[errorStatus[code]]?.content?.["application/json"];
        expect(answer?.examples, `${name} ${code}`).toHaveProperty(code);
      }
      if (operation.status !== 204) expect(found?.responses[operation.status]?.content?.["application/json"]?.example, name).toBeDefined();
      if (operation.body.def.type !== "undefined") expect(found?.requestBody?.content["application/json"]?.example, name).toBeDefined();
    }
  });

  it("A1: every example has the shape of what it is an example of", () => {
    for (const name of names) {
      const operation: Operation = operations[name];
      const strict = (shape: z.ZodType) => (shape instanceof z.ZodObject ? shape.strict() : shape);
      const body = operation.body.safeParse(bodyExamples[name]);
      expect(body.success, `${name}: ${body.error?.message}`).toBe(true);
      const answer = strict(operation.answer).safeParse(answerExamples[name]);
      expect(answer.success, `${name}: ${answer.error?.message}`).toBe(true);
    }
  });
});

describe("the reference", () => {
  let door: Door;
  beforeAll(async () => {
    door = await openDoor("sqlite");
  });
  afterAll(() => door.close());

  it("A1: /openapi.json and /docs are served without a key, the page loads nothing from elsewhere and may not", async () => {
    expect((await door.request("/openapi.json", { key: null })).json.openapi).toBe("3.1.0");
    const page = await door.request("/docs", { key: null });
    expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(page.headers["content-security-policy"]).toMatch(/default-src 'none'.*connect-src 'self'/);
    expect(page.text).not.toMatch(/https?:\/\//);
    const scripts = [...page.text.matchAll(/src="([^"]+)"/g)].map(([, src]) => String(src));
    expect(scripts).toHaveLength(2);
    for (const src of scripts) {
      const script = await door.request(src, { key: null });
      expect([script.status, script.headers["content-type"]]).toEqual([200, "text/javascript; charset=utf-8"]);
    }
    expect((await door.request("/docs/reference.js", { key: null })).text).toContain("createApiReference");
    const start = await door.request("/docs/start.js", { key: null });
    expect(start.text).toMatch(/withDefaultFonts: false,[\s\S]*telemetry: false/);
  });
});
