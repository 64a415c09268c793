import { expect, it } from "vitest";
import { queueOf, routes } from "./routes.ts";
import { coldVerbs } from "./verbs.ts";

/** Verbs about internal queues, of apps and of topics' subscriptions, which are on the default database; and one that each database is asked. */
const APART = ["appOfQueue", "topicLanes", "queuesWithMessages", "nextWork"];

it("A14: every verb that takes a queue's number goes to that queue's database, or it is said why not", () => {
  const unrouted = Object.entries(coldVerbs)
    .filter(([name]) => !(name in routes) && !(name in queueOf) && !APART.includes(name))
    // The parameters of the function as it was written.
    .filter(([, verb]) => /queueNos?\b/.test(String(verb).slice(0, String(verb).indexOf(") {"))))
    .map(([name]) => name);
  expect(unrouted).toEqual([]);
});
