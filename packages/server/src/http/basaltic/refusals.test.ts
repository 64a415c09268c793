import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answered, type Door, openDoor } from "../door.suite.ts";

let door: Door;
beforeAll(async () => {
  door = await openDoor("sqlite");
  await call("/topics", { name: "orders" });
});
afterAll(() => door.close());

const call = (path: string, json: unknown): Promise<Answered> => door.request(`/v1${path}`, { json, headers: { "x-account-id": "shop" } });
/** The body as it is written: an object literal has no key of the name `__proto__`. */
const parsed = (text: string): unknown => JSON.parse(text);
const refusal = ({ status, json }: Answered): unknown => [status, json.error.code, json.error.details.path, json.error.details.bound];

it("T3, A2: what is wrong with a publication is told by its field and its bound", async () => {
  const message = "must be text, or an object of texts that has a default";
  const attribute = "must be text, or {type, value} of type String, Number, String.Array or Binary";
  for (const [given, path, bound] of [
    [{}, "message", "is required"],
    [{ message: 5 }, "message", message],
    [{ message: { webhook: "w" }, message_structure: "json" }, "message", message],
    [{ message: "m", subject: "\0" }, "subject", "must be without U+0000"],
    [{ message: "m", attributes: [] }, "attributes", "must be an object"],
    [{ message: "m", attributes: { "": "x" } }, "attributes.", "its name must have at least 1 character"],
    [{ message: "m", attributes: { a: 5 } }, "attributes.a", attribute],
    [{ message: "m", attributes: { a: { type: "Number", value: true } } }, "attributes.a", attribute],
  ] as const)
    expect(refusal(await call("/topics/orders/publish", given)), path).toEqual([400, "invalid_request", path, bound]);
});

it("T3, T10: a name that would be lost is refused, not dropped", async () => {
  const lost = parsed('{ "a": ["x"], "__proto__": ["y"] }');
  const subscription = { protocol: "webhook", endpoint: "https://hooks.example.com/a", filter_policy: lost };
  for (const [path, body] of [
    ["/topics/orders/subscriptions", subscription],
    ["/filter_policies/test", { filter_policy: lost }],
  ] as const)
    expect(refusal(await call(path, body))).toEqual([400, "invalid_request", "filter_policy.__proto__", "must be of another name"]);
  const body = { message: "m", attributes: parsed('{ "__proto__": "x" }') };
  expect(refusal(await call("/topics/orders/publish", body))).toEqual([
    ...[400, "invalid_request", "attributes.__proto__"],
    "must be of another name",
  ]);
});

it("T5, P18: a webhook's URL that may not be called is told under the name of its field", async () => {
  const subscription = { protocol: "webhook", endpoint: "https://10.0.0.1/a" };
  expect(refusal(await call("/topics/orders/subscriptions", subscription))).toEqual([
    ...[400, "invalid_target", "endpoint"],
    expect.stringContaining("not an IP address"),
  ]);
});
