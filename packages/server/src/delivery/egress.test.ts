import { resolver } from "@millrace/testkit";
import { describe, expect, it } from "vitest";
import { type Resolve, vet } from "./egress.ts";
import { egressOf, readTarget } from "./target.ts";
import type { EgressPolicy } from "./types.ts";

const strict: EgressPolicy = { allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: [] };
const ask = (resolve: Resolve, policy = strict, url = "https://hooks.example.com/") =>
  vet(readTarget(url, policy), egressOf(policy), resolve);
const failing =
  (error: unknown): Resolve =>
  () =>
    Promise.reject(error);

describe("the guard", () => {
  it("P19: one look-up, and every address must be allowed", async () => {
    const names = resolver({ "hooks.example.com": ["8.8.8.8", "2606:4700::1111"] });
    expect(await ask(names)).toEqual({
      addresses: [
        { address: "8.8.8.8", family: 4 },
        { address: "2606:4700::1111", family: 6 },
      ],
    });
    expect(names.asked).toEqual(["hooks.example.com"]);
    for (const inner of ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "not an address"]) {
      for (const addresses of [[inner], ["8.8.8.8", inner], [inner, "8.8.8.8"]]) {
        expect(await ask(resolver({ "hooks.example.com": addresses })), inner).toMatchObject({ failure: { class: "refused" } });
      }
    }
  });

  it("P19: a name that does not resolve is a connection failure, so that it is tried again", async () => {
    for (const code of ["ENOTFOUND", "ENODATA", "ESERVFAIL", "EAI_AGAIN", "ETIMEOUT"]) {
      expect(await ask(failing(Object.assign(new Error(code), { code })))).toMatchObject({ failure: { class: "connection" } });
    }
    expect(await ask(async () => [])).toMatchObject({ failure: { class: "connection" } });
  });

  it("SSRF-06: any other error in the guard means refused", async () => {
    const odd =
      (value: unknown): Resolve =>
      async () =>
        value as [];
    for (const resolve of [
      failing(new Error("boom")),
      failing(null),
      failing("text"),
      failing(Object.assign(new Error("x"), { code: "ERR_SOMETHING" })),
      () => {
        throw new TypeError("not even a promise");
      },
      odd(null),
      odd([null]),
      odd([{}]),
      odd([{ address: 7 }]),
      odd(Array.from({ length: 1000 }, () => ({ address: "8.8.8.8", family: 4 }))),
    ] as Resolve[]) {
      expect(await ask(resolve)).toMatchObject({ failure: { class: "refused" } });
    }
  });

  it("SSRF-08: what the guard says names no address and is at most 200 characters", async () => {
    for (const address of ["10.11.12.13", "169.254.169.254", "fd00::abcd"]) {
      const result = await ask(resolver({ "hooks.example.com": address }));
      const message = "failure" in result ? result.failure.message : "";
      expect(message.length).toBeGreaterThan(0);
      expect(message.length).toBeLessThanOrEqual(200);
      expect(message).not.toMatch(/\d|abcd|hooks/);
    }
    const result = await ask(failing(Object.assign(new Error("getaddrinfo ENOTFOUND at 10.0.0.53"), { code: "ENOTFOUND" })));
    expect(JSON.stringify(result)).not.toContain("10.0.0.53");
  });

  it("P21: a named host may lead inside, an opened block too, and the rest stays refused", async () => {
    const names = resolver({ "hooks.example.com": "10.1.0.7" });
    expect(await ask(names, { ...strict, allowHosts: ["hooks.example.com"] })).toHaveProperty("addresses");
    expect(await ask(names, { ...strict, allowCidrs: ["10.1.0.0/24"] })).toHaveProperty("addresses");
    expect(await ask(names, { ...strict, allowCidrs: ["10.2.0.0/24"], allowHosts: ["other.example.com"] })).toHaveProperty("failure");
    const literal = { ...strict, allowCidrs: ["10.1.0.0/24"] };
    expect(await ask(names, literal, "https://10.1.0.7/")).toEqual({ addresses: [{ address: "10.1.0.7", family: 4 }] });
  });
});
