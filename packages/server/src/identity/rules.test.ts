import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { authorize, exceeds, matches } from "./rules.ts";

const key = (on: string[], allow: string[] = ["*"], within: string | null = null) => ({ within, statements: [{ allow, on }] });

describe("patterns", () => {
  it("A5: * stands for any run of characters and everything else for itself", () => {
    const pattern = fc.array(fc.constantFrom("a", ".", "/", "-", "*", "+", "b"), { maxLength: 8 }).map((parts) => parts.join(""));
    const text = fc.array(fc.constantFrom("a", ".", "/", "-", "*", "+", "b"), { maxLength: 8 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(pattern, text, (given, against) => {
        const regex = new RegExp(`^${given.replace(/[.+/\\-]/g, "\\$&").replaceAll("*", ".*")}$`, "s");
        expect(matches(given, against)).toBe(regex.test(against));
      }),
      { numRuns: 3000 },
    );
  });

  it("A5: a pattern of many stars is decided quickly", () => {
    expect(matches("*a".repeat(100), `${"a".repeat(200)}b`)).toBe(false);
  });
});

describe("authorize", () => {
  it("A5: nothing is allowed that no statement allows", () => {
    expect(authorize({ within: null, statements: [] }, "queues.queues.get", "acme")).toBe("hidden");
    expect(authorize(key(["acme"], []), "queues.queues.get", "acme")).toBe("denied");
  });

  it("A6: what a key sees but may not do is denied, what it does not see is hidden", () => {
    const caller = key(["acme/shop/queues/orders-*"], ["queues.messages.*"]);
    expect(authorize(caller, "queues.messages.send", "acme/shop/queues/orders-eu")).toBe("allowed");
    expect(authorize(caller, "queues.queues.delete", "acme/shop/queues/orders-eu")).toBe("denied");
    expect(authorize(caller, "queues.messages.send", "acme/shop/queues/invoices")).toBe("hidden");
    expect(authorize(caller, "projects.get", "acme/shop")).toBe("denied");
    expect(authorize(caller, "organizations.get", "acme")).toBe("denied");
    expect(authorize(caller, "projects.get", "acme/other")).toBe("hidden");
    expect(authorize(caller, "organizations.get", "acme-2")).toBe("hidden");
  });

  it("A6: a pattern that begins with * shows no queue beside the ones it names", () => {
    const caller = key(["*/queues/a"], ["queues.messages.send"]);
    expect(authorize(caller, "queues.queues.get", "acme/shop/queues/a")).toBe("denied");
    expect(authorize(caller, "queues.queues.get", "acme/shop/queues/b")).toBe("hidden");
    expect(authorize(caller, "projects.get", "acme/shop")).toBe("denied");
  });

  it("A5: permission and resource must be allowed by one and the same statement", () => {
    const caller = {
      within: null,
      statements: [
        { allow: ["queues.messages.send"], on: ["acme/shop/queues/a"] },
        { allow: ["queues.messages.receive"], on: ["acme/shop/queues/b"] },
      ],
    };
    expect(authorize(caller, "queues.messages.receive", "acme/shop/queues/a")).toBe("denied");
  });

  it("A5: a project's key reaches no other project, whatever its statements say", () => {
    const caller = key(["*"], ["*"], "acme/shop");
    expect(authorize(caller, "queues.queues.delete", "acme/shop/queues/orders")).toBe("allowed");
    expect(authorize(caller, "projects.delete", "acme/shop")).toBe("allowed");
    expect(authorize(caller, "projects.get", "acme/shop-2")).toBe("hidden");
    expect(authorize(caller, "queues.queues.get", "acme/shop-2/queues/orders")).toBe("hidden");
    expect(authorize(caller, "organizations.delete", "acme")).toBe("denied");
    expect(authorize(caller, "organizations.get", "globex")).toBe("hidden");
  });
});

describe("what a key sees of an app", () => {
  it("A6, W4: a key for a workflow sees its app, may do nothing to it, and sees no other", () => {
    const caller = key(["acme/shop/apps/billing/charge"], ["workflows.runs.*"]);
    expect(authorize(caller, "workflows.runs.start", "acme/shop/apps/billing/charge")).toBe("allowed");
    expect(authorize(caller, "workflows.apps.get", "acme/shop/apps/billing")).toBe("denied");
    expect(authorize(caller, null, "acme/shop/apps/billing")).toBe("allowed");
    expect(authorize(caller, "workflows.runs.start", "acme/shop/apps/billing/refund")).toBe("hidden");
    expect(authorize(caller, null, "acme/shop/apps/other")).toBe("hidden");
    // Nothing lies inside a queue, whatever it is called.
    expect(authorize(key(["acme/shop/queues/apps/x"]), null, "acme/shop/queues/apps")).toBe("hidden");
  });
});

describe("exceeds", () => {
  it("A5: a key can hand out no more than it has", () => {
    const caller = key(["acme/shop/queues/*"], ["queues.messages.*"]);
    const give = (allow: string, on: string) => exceeds(caller, [{ allow: [allow], on: [on] }], "acme/shop");
    expect(give("queues.messages.send", "acme/shop/queues/orders")).toBeNull();
    expect(give("queues.messages.*", "acme/shop/queues/orders-*")).toBeNull();
    expect(give("queues.*", "acme/shop/queues/orders")).toBe("queues.*");
    expect(give("queues.messages.send", "acme/*")).toBe("queues.messages.send");
    expect(give("queues.messages.send", "*")).toBe("queues.messages.send");
    expect(exceeds(key(["acme/*", "acme"]), [{ allow: ["*"], on: ["*"] }], "acme/shop")).toBeNull();
  });

  it("A5: whatever exceeds lets through, the giver itself is allowed", () => {
    const part = fc.constantFrom("a", "b", "*", "/");
    const pattern = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(""));
    const text = fc.array(fc.constantFrom("a", "b", "/"), { maxLength: 6 }).map((parts) => parts.join(""));
    let held = 0;
    fc.assert(
      fc.property(pattern, pattern, text, (own, given, resource) => {
        if (given === "*" || !matches(given, resource) || exceeds(key([own]), [{ allow: ["x"], on: [given] }], "p") !== null) return;
        held += 1;
        expect(matches(own, resource)).toBe(true);
      }),
      { numRuns: 20_000 },
    );
    expect(held).toBeGreaterThan(50);
  });
});
