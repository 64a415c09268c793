/**
 * What filters cost: evaluations a second of one policy, publications a second on a topic by its number of filtered members, and what it
 * costs to take a member in. All in this thread, without a store; CPU time, so that it can be compared on a busy machine.
 * `node --import tsx --conditions=@millrace/source bench/filters.ts`, with MILLISECONDS for each row.
 */
import { compileFilter, documentOf, type FilterScope } from "../packages/server/src/topic/filter/filter.ts";
import { createMatcher } from "../packages/server/src/topic/filter/matcher.ts";

const MILLISECONDS = Number(process.env.MILLISECONDS ?? 300);

/** How often `work` can be done in a second of CPU. */
function rate(work: () => unknown): number {
  for (let i = 0; i < 1_000; i++) work();
  const start = process.cpuUsage();
  for (let done = 1_000; ; done += 1_000) {
    for (let i = 0; i < 1_000; i++) work();
    const { user, system } = process.cpuUsage(start);
    const micros = user + system;
    if (micros > MILLISECONDS * 1_000) return (done / micros) * 1_000_000;
  }
}

const say = (name: string, perSecond: number): void =>
  console.log(`${name} | ${Math.round(perSecond).toLocaleString("en")} a second, ${(1_000_000 / perSecond).toFixed(2)} µs each`);

const attributes = { store: "berlin", price: { type: "Number", value: "120" }, customer: "acme", address: "10.1.2.3" };
const message = JSON.stringify({
  order: { items: Array.from({ length: 10 }, (_, at) => ({ sku: `a-${at}`, count: at })) },
  note: "x".repeat(500),
});
const policies: Record<string, [policy: unknown, scope: FilterScope]> = {
  "one exact value": [{ store: ["berlin"] }, "attributes"],
  "five keys": [
    {
      store: ["paris", { prefix: "ber" }],
      price: [{ numeric: [">=", 100, "<", 500] }],
      customer: [{ "anything-but": ["test", "internal"] }],
      address: [{ cidr: "10.0.0.0/8" }],
      absent: [{ exists: false }],
    },
    "attributes",
  ],
  "a wildcard": [{ store: [{ wildcard: "*er*in" }] }, "attributes"],
  "nested, in a list of ten, the message parsed each time": [{ order: { items: { sku: ["a-9"], count: [9] } } }, "message"],
};
for (const [name, [policy, scope]] of Object.entries(policies)) {
  const filter = compileFilter(policy, scope);
  say(
    name,
    rate(() => filter.matches(documentOf({ attributes, message }))),
  );
}

for (const members of [1_000, 10_000, 100_000]) {
  const matcher = createMatcher<number>();
  const start = process.cpuUsage();
  for (let at = 0; at < members; at++) {
    const text = JSON.stringify({ tenant: [`t${at}`], kind: ["order", "refund"] });
    matcher.add(at, { text, scope: "attributes" });
  }
  const { user, system } = process.cpuUsage(start);
  say(`take a member in, of ${members.toLocaleString("en")}`, members / ((user + system) / 1_000_000));
  const published = { tenant: "t7", kind: "order" };
  say(
    `a publication with 1 match of ${members.toLocaleString("en")}`,
    rate(() => [...matcher.walk(documentOf({ attributes: published, message }))]),
  );
}
