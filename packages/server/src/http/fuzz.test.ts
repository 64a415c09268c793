import { type OperationName, routes } from "@millrace/contract";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, type Engine, openDoor } from "./door.suite.ts";
import { createOpenapi } from "./openapi.ts";
import { bodyExamples } from "./openapi-examples.ts";

interface Schema {
  $ref?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  minimum?: number;
  maximum?: number;
}
interface Documented {
  operationId: OperationName;
  parameters?: { in: string; name: string; schema: Schema }[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
}
const document = createOpenapi("0.0.0") as {
  paths: Record<string, Record<string, Documented>>;
  components: { schemas: Record<string, Schema> };
};

/** Text that has broken servers before. */
const hostileText = fc.constantFrom(
  ...[
    "",
    " ",
    "\u0000",
    "a\u0000b",
    "😀",
    "\ud800",
    "\udc00x",
    "../../etc/passwd",
    "..",
    ".",
    "%00",
    "'; DROP TABLE queue; --",
    "\r\nX: y",
  ],
  ...[
    "__proto__",
    "constructor",
    "toString",
    "x".repeat(300),
    "é".repeat(200),
    "\u202e",
    "-1",
    "NaN",
    "null",
    "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8",
  ],
  ...["que_aaaaaaaaaaaa", "AAAA", "AAAAAAAAWzFd", "https://[::1]:0/", "http://127.0.0.1", "https://a..b/", "https://user@host/"],
);
const deep = (depth: number): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = i % 2 === 0 ? [value] : { a: value };
  return value;
};
const hostile: fc.Arbitrary<unknown> = fc.oneof(
  hostileText,
  fc.constantFrom<unknown>(null, true, false, 0, -0, -1, 1.5, 1e308, 2 ** 53, -(2 ** 63), 1e21, [], {}, [null], deep(2000)),
  fc.constant(JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}') as unknown),
);

/** Values that mostly fit the schema, now and then do not. */
function fitting(schema: Schema): fc.Arbitrary<unknown> {
  const named = schema.$ref === undefined ? schema : document.components.schemas[schema.$ref.split("/").at(-1) ?? ""];
  const at = named ?? {};
  const type = Array.isArray(at.type) ? at.type[0] : at.type;
  let good: fc.Arbitrary<unknown>;
  if (at.const !== undefined) good = fc.constant(at.const);
  else if (at.enum !== undefined) good = fc.constantFrom(...at.enum);
  else if (at.anyOf !== undefined) good = fc.oneof(...at.anyOf.map(fitting));
  else if (at.oneOf !== undefined) good = fc.oneof(...at.oneOf.map(fitting));
  else if (type === "object" && at.properties !== undefined) {
    const fields = Object.fromEntries(Object.entries(at.properties).map(([key, each]) => [key, fitting(each)]));
    const whole = fc.record(fields, { requiredKeys: at.required ?? [] });
    const extra = fc.tuple(whole, hostileText, hostile).map(([all, key, value]) => ({ ...all, [key]: value }));
    good = fc.oneof({ arbitrary: whole, weight: 9 }, { arbitrary: extra, weight: 1 });
  } else if (type === "object") {
    good = fc.dictionary(fc.oneof(fc.constantFrom("a", "b.c"), hostileText), fc.oneof(fc.constant("v"), hostile), { maxKeys: 12 });
  } else if (type === "array") good = fc.array(fitting(at.items ?? {}), { maxLength: 12 });
  else if (type === "integer" || type === "number") {
    const { minimum: low = 0, maximum: high = 100 } = at;
    good = fc.oneof(fc.constantFrom(low, high, low - 1, high + 1), fc.integer({ min: low, max: Math.min(high, low + 20) }));
  } else if (type === "boolean") good = fc.boolean();
  else {
    const usual = fc.constantFrom("orders", "fuzz", "dlq", "billing", "chargeCustomer", "https://example.com/hook", "text");
    good = fc.oneof(usual, fc.string({ unit: "binary", maxLength: 20 }), hostileText);
  }
  return fc.oneof({ arbitrary: good, weight: 12 }, { arbitrary: hostile, weight: 1 });
}

/** Stands in a path for the id that the server gave last to something of this kind. */
const LEARNED = "LEARNED";

const names: Record<string, string[]> = {
  organizationId: ["acme", "acme", "acme", "globex"],
  projectId: ["fuzz", "fuzz", "fuzz", "gone"],
  queueId: ["orders", "fifo", "dlq", "fresh"],
  subscriptionId: [LEARNED],
  redriveId: [LEARNED],
  keyId: [LEARNED],
  applicationId: ["fuzz", "fuzz", "fuzz", "gone"],
  queueName: ["orders", "fifo", "dlq", "fresh"],
  messageId: ["01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8"],
  deploymentId: ["dpl_1", "dpl_2"],
  environmentId: ["production", "staging"],
  topic: ["orders", "orders", "gone"],
  appId: ["billing", "billing", "fresh", "gone"],
  runId: [LEARNED],
};

/** Bodies that are taken where the documented example needs something that is not there. */
const taken: Partial<Record<OperationName, unknown>> = {
  CreateQueue: { name: "fresh", paused: true },
  CreateTopic: { name: "fresh" },
  CreateTopicSubscription: { protocol: "queue", endpoint: "orders" },
  CreateApp: { name: "fresh", mode: "pull" },
  UpdateApp: { maxConcurrency: 5, notifications: { queueId: "orders", on: ["cancelled"] } },
};

/** A percent-encoded path part; what cannot be encoded stays raw. */
function encode(text: string): string {
  try {
    return encodeURIComponent(text) || "%20";
  } catch {
    return "%ED%A0%80";
  }
}

interface Shot {
  operation: OperationName;
  method: string;
  path: string;
  body: string | undefined;
  idempotencyKey: string | undefined;
}

/** Operations of which some must have been taken, or nothing was there to break. */
const TAKEN = new Set<OperationName>([
  "SendMessages",
  "CreateQueue",
  "UpdateQueue",
  "ReceiveMessages",
  "CreateSubscription",
  "CreateTopic",
  "CreateTopicSubscription",
  "StartRun",
  "PollTasks",
]);

/** What may be sent to each operation. */
const shots: Record<string, fc.Arbitrary<Shot>> = Object.fromEntries(
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, parameters = [], requestBody }]) => {
      const params = fc.record(
        Object.fromEntries(
          parameters
            .filter((each) => each.in === "path")
            .map(({ name }) => [
              name,
              fc.oneof({ arbitrary: fc.constantFrom(...(names[name] ?? ["x"])), weight: 8 }, { arbitrary: hostileText, weight: 1 }),
            ]),
        ),
      );
      const query = fc.record(
        Object.fromEntries(parameters.filter((each) => each.in === "query").map(({ name, schema }) => [name, fitting(schema)])),
        { requiredKeys: [] },
      );
      const example = taken[operationId] ?? bodyExamples[operationId];
      const body =
        requestBody === undefined
          ? fc.constant(undefined)
          : fc.oneof(
              { arbitrary: fc.constant(example), weight: 2 },
              { arbitrary: fitting(requestBody.content["application/json"].schema), weight: 1 },
            );
      const text = fc.tuple(body, fc.constantFrom(...Array(20).fill("as is"), "cut", "infinite", "twice")).map(([value, how]) => {
        if (value === undefined) return undefined;
        // With the clock standing still a long wait would never end.
        const shown = JSON.stringify(value, (key, each) => (key === "waitSeconds" && each >= 1 && each <= 20 ? 0 : each)) ?? "null";
        return how === "cut"
          ? shown.slice(0, -1)
          : how === "infinite"
            ? shown.replace(/\d+/, "1e999")
            : how === "twice"
              ? shown + shown
              : shown;
      });
      const key = fc.option(fc.constantFrom("k1", "k2", "", "x".repeat(256)), { nil: undefined, freq: 6 });
      const shot = fc.tuple(params, query, text, key).map(([given, search, sent, idempotencyKey]) => {
        const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encode(String(given[name])));
        const pairs = Object.entries(search).map(
          ([name, value]) => `${name}=${encode(typeof value === "string" ? value : JSON.stringify(value))}`,
        );
        return {
          operation: operationId,
          method: method.toUpperCase(),
          path: filled + (pairs.length === 0 ? "" : `?${pairs.join("&")}`),
          body: sent,
          idempotencyKey,
        };
      });
      return [operationId, shot] as const;
    }),
  ),
);

describe.each<Engine>(["sqlite", "postgres"])("any input on %s", (engine) => {
  let door: Door;
  const learned: Record<string, string> = { subscriptions: "none", redrives: "none", keys: "none", runs: "none" };
  const seen = new Map<OperationName, Set<number>>();
  beforeAll(async () => {
    door = await openDoor(engine);
    await door.shop("/queues", { json: { name: "after" } });
    await door.request("/v1/organizations", { json: { name: "globex" } });
  });
  afterAll(() => door.close());

  const prepare = async (): Promise<void> => {
    const made = await door.request("/v1/organizations/acme/projects", { json: { name: "fuzz" } });
    if (![201, 409].includes(made.status)) throw new Error(made.text);
    for (const [name, type] of [
      ["orders", "standard"],
      ["fifo", "fifo"],
      ["dlq", "standard"],
    ]) {
      await door.request("/v1/organizations/acme/projects/fuzz/queues", { json: { name, type } });
    }
    await door.request("/v1/topics", { json: { name: "orders" }, headers: { "x-account-id": "fuzz" } });
    const apps = "/v1/organizations/acme/projects/fuzz/apps";
    await door.request(apps, { json: { name: "billing", mode: "pull" } });
    const worker = { protocol: "1.2", buildId: "b", workflows: [{ name: "chargeCustomer" }], max: 1, waitSeconds: 0 };
    await door.request(`${apps}/billing/poll`, { json: worker });
  };

  it("A2, Q5: no input to any operation makes a 5xx or a hang, every refusal is a Problem, and the server works on afterwards", async () => {
    const fire = async (volley: Shot[]): Promise<void> => {
      await prepare();
      const answers = await Promise.all(
        volley.map(async (shot) => {
          const headers: Record<string, string> = {
            "x-account-id": "fuzz",
            ...(shot.idempotencyKey === undefined ? {} : { "idempotency-key": shot.idempotencyKey }),
          };
          const kind = Object.keys(learned).find((each) => shot.path.includes(`/${each}`)) ?? "";
          const path = shot.path.replace(LEARNED, learned[kind] ?? "none");
          const answer = await door.request(path, {
            method: shot.method,
            ...(shot.body === undefined ? {} : { raw: shot.body }),
            headers,
          });
          if (answer.status === 201 && kind !== "") learned[kind] = (answer.json.subscription ?? answer.json).id;
          return { shot, answer };
        }),
      );
      for (const { shot, answer } of answers) {
        seen.set(shot.operation, (seen.get(shot.operation) ?? new Set()).add(answer.status));
        const full = answer.status === 503 && answer.json?.error.code === "overloaded";
        if (answer.status >= 500 && !full) expect.fail(`${JSON.stringify(shot)} got ${answer.text}: ${String(door.logged.at(-1)?.err)}`);
        if (answer.status >= 400) expect(answer.json.error).toMatchObject({ code: expect.any(String), requestId: expect.any(String) });
      }
    };
    const all = Object.values(shots);
    await fc.assert(fc.asyncProperty(fc.array(fc.oneof(...all), { minLength: 20, maxLength: 20 }), fire), {
      numRuns: 600,
      interruptAfterTimeLimit: 45_000,
    });
    // A slow machine is interrupted early: what it has not come to by then has its turn now.
    const was = (name: OperationName): boolean => {
      const statuses = [...(seen.get(name) ?? [])];
      return TAKEN.has(name) ? statuses.some((status) => status < 300) : statuses.length > 0;
    };
    for (const [name, shot] of Object.entries(shots) as [OperationName, fc.Arbitrary<Shot>][])
      for (let more = 0; more < 100 && !was(name); more++) await fire(fc.sample(shot, 1));
    for (const name of Object.keys(routes) as OperationName[]) expect(was(name), `${name} was never asked for, or never taken`).toBe(true);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(door.logged).toEqual([]);
    expect((await door.shop("/queues/after/messages", { json: { messages: [{ body: "still here" }] } })).status).toBe(200);
    const received = await door.shop("/queues/after/messages/receive", { json: {} });
    expect(received.json.messages[0].body).toBe("still here");
  });

  it("A1, A2: paths and methods that nobody thought of get a Problem", async () => {
    const part = fc.oneof(
      fc.constantFrom("v1", "organizations", "acme", "projects", "queues", "docs", "..", ".", "%", "%2F", "//", ";a=b"),
      fc.webPath({ size: "small" }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 8 }).map((parts) => `/${parts.join("/")}`.replaceAll(/\s/g, "+")),
        fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"),
        async (path, method) => {
          const answer = await door.request(path, { method });
          if (answer.status >= 500) expect.fail(`${method} ${path} got ${answer.text}`);
          if (answer.status >= 400) expect(answer.json.error.code).toBeTypeOf("string");
        },
      ),
      { numRuns: 300 },
    );
  });
});
