import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { receiver, resolver } from "@millrace/testkit";
import { afterAll, describe, expect, it } from "vitest";
import { attempts, authority, host, request } from "./loopback.suite.ts";

const namespace = `millrace-${process.pid}`;
const outerAddress = "93.184.216.34";
const innerAddresses = ["127.0.0.1", "169.254.169.254", "10.0.0.1"];
const ip = (...args: string[]) => execFileSync("ip", args, { stdio: "pipe" });
const inside = (...args: string[]) => ip("-n", namespace, ...args);

/** Makes the namespace; `false` where this machine or this user cannot. */
function prepare(): boolean {
  try {
    mkdirSync(`/etc/netns/${namespace}`, { recursive: true });
    writeFileSync(`/etc/netns/${namespace}/resolv.conf`, "nameserver 127.0.0.1\n");
    ip("netns", "add", namespace);
    inside("link", "set", "lo", "up");
    for (const address of [outerAddress, ...innerAddresses.slice(1)]) inside("addr", "add", `${address}/32`, "dev", "lo");
    return true;
  } catch {
    return false;
  }
}
const possible = prepare();
afterAll(() => {
  try {
    ip("netns", "delete", namespace);
  } catch {
    // It was never made.
  }
  rmSync(`/etc/netns/${namespace}`, { recursive: true, force: true });
});

interface Report {
  inner: number;
  asked: number;
  outer: number;
  requests: number;
  hosts: string[];
  seen: Record<string, number>;
  messages: string[];
}

describe("a name that leads elsewhere when it is dialled than when it was checked", () => {
  it.skipIf(!possible)(
    "P19, SSRF-04: in a network of its own, with nothing opened, 1,000 deliveries never reach an inner address",
    async () => {
      const script = fileURLToPath(new URL("./rebinding.suite.ts", import.meta.url));
      const node = [process.execPath, "--import", "tsx", "--conditions=@millrace/source", script];
      const { stdout } = await promisify(execFile)(
        "ip",
        ["netns", "exec", namespace, ...node, outerAddress, innerAddresses.join(","), "1000"],
        { timeout: 120_000 },
      );
      const report = JSON.parse(stdout) as Report;
      expect(report.inner).toBe(0);
      expect(report.messages).toEqual(["the host name leads to an address that may not be called"]);
      expect(Object.keys(report.seen).sort()).toEqual(["200", "refused"]);
      expect(report.seen["200"]).toBe(report.requests);
      expect((report.seen["200"] ?? 0) + (report.seen.refused ?? 0)).toBe(1000);
      // One look-up per connection: each either became a connection or a refusal.
      expect(report.asked).toBe(report.outer + (report.seen.refused ?? 0));
      expect(report.seen.refused).toBe(Math.floor(report.asked / 3));
      expect(report.hosts).toEqual([host]);
    },
    180_000,
  );

  it("P19, SSRF-04: each connection goes to the address that its own look-up gave, and an inner answer is refused, never dialled", async () => {
    const outer = await receiver({
      tls: authority.issue(host),
      host: "127.0.0.2",
      answer: ({ order }) => (order % 2 === 0 ? { headers: { connection: "close" } } : {}),
    });
    const inner = await receiver({ host: "127.0.0.1", port: outer.port });
    let turn = 0;
    const names = resolver({ [host]: () => (++turn % 3 === 0 ? "127.0.0.1" : "127.0.0.2") });
    // Loopback's second address stands for the world: it alone is opened.
    const policy = { allowHosts: [], allowCidrs: ["127.0.0.2/32"], allowHttp: false, allowPorts: [outer.port], ownHosts: [] };
    const tries = attempts({ resolve: names, policy });
    let refused = 0;
    for (let i = 0; i < 300; i++) {
      const result = await tries.attempt(request(`https://${host}:${outer.port}/`));
      if (result.kind === "failure") {
        expect(result.class).toBe("refused");
        refused += 1;
      }
    }
    expect(inner.connections).toBe(0);
    expect(refused).toBeGreaterThan(50);
    expect(names.asked.length).toBe(outer.connections + refused);
    tries.close();
    await Promise.all([outer.close(), inner.close()]);
  });
});
