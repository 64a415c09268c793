import { expect, it } from "vitest";
import { queueOf, routes } from "./routes.ts";
import { coldVerbs } from "./verbs.ts";

/** Verbs about internal queues, of apps and of topics' subscriptions: those are on the default database. */
const INTERNAL = ["appOfQueue", "topicLanes", "queuesWithMessages"];

it("A14: every verb that takes a queue's number goes to that queue's database, or it is said why not", () => {
  const unrouted = Object.entries(coldVerbs)
    .filter(([name]) => !(name in routes) && !(name in queueOf) && !INTERNAL.includes(name))
    // The parameters of the function as it was written.
    .filter(([, verb]) => /queueNos?\b/.test(String(verb).slice(0, String(verb).indexOf(") {"))))
    .map(([name]) => name);
  expect(unrouted).toEqual([]);
});
