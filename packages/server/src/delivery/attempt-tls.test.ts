import { writeFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { certificates, type Leaf, type Receiver, receiver, scratch } from "@millrace/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { attempts, authority, host, rawEndpoint, request } from "./loopback.suite.ts";
import { systemTrust } from "./trust.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
function keep<T extends { close(): unknown }>(it: T): T {
  closing.push(() => it.close());
  return it;
}
const bad: [name: string, leaf: () => Leaf][] = [
  ["expired", () => authority.expired(host)],
  ["not yet valid", () => authority.issue(host, { from: Date.now() + 3_600_000 })],
  ["self-signed", () => authority.selfSigned(host)],
  ["of another authority", () => certificates().issue(host)],
  ["for another name", () => authority.wrongName()],
];
/** A server that speaks nothing newer than TLS 1.1. */
const old = () =>
  rawEndpoint((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), {
    ...authority.issue(host),
    minVersion: "TLSv1",
    maxVersion: "TLSv1.1",
    ciphers: "DEFAULT@SECLEVEL=0",
  });

describe("TLS", () => {
  for (const [name, leaf] of bad) {
    it(`P20: a certificate that is ${name} is class tls, and no request is sent`, async () => {
      const endpoint = keep(await receiver({ tls: leaf() }));
      const { attempt } = keep(attempts());
      expect(await attempt(request(`https://${host}:${endpoint.port}/`))).toMatchObject({ kind: "failure", class: "tls" });
      expect(endpoint.requests.length).toBe(0);
    });
  }

  it("P20: an endpoint that speaks TLS 1.1 at most, or none at all, is class tls", async () => {
    const ancient = keep(await old());
    const plain = keep(await receiver());
    const { attempt } = keep(attempts());
    for (const { port } of [ancient, plain]) {
      expect(await attempt(request(`https://${host}:${port}/`))).toMatchObject({ kind: "failure", class: "tls" });
    }
    expect(ancient.received.join("")).toBe("");
  });

  it("P20: without authorities given, those of the machine decide, and a test authority is not among them", async () => {
    const endpoint = keep(await receiver({ tls: authority.issue(host) }));
    const { attempt } = keep(attempts({ ca: undefined }));
    expect(await attempt(request(`https://${host}:${endpoint.port}/`))).toMatchObject({ class: "tls" });
  });

  it("P20: the machine's trust store is the file that SSL_CERT_FILE names, or the system's; extra authorities add to it", async () => {
    const { path: folder } = scratch("trust");
    const own = authority.selfSigned(host);
    writeFileSync(`${folder}/system.pem`, authority.ca);
    writeFileSync(`${folder}/extra.pem`, own.cert);
    const ca = systemTrust({ SSL_CERT_FILE: `${folder}/system.pem`, NODE_EXTRA_CA_CERTS: `${folder}/extra.pem` });
    const { attempt } = keep(attempts({ ca }));
    for (const tls of [authority.issue(host), own]) {
      const endpoint = keep(await receiver({ tls }));
      expect(await attempt(request(`https://${host}:${endpoint.port}/`))).toMatchObject({ kind: "answer", status: 200 });
    }
    expect(systemTrust({ SSL_CERT_FILE: `${folder}/none.pem` })).toEqual(systemTrust({}));
  });

  it("P20, P21: an address opened by a block is called by a certificate for that address", async () => {
    const endpoint = keep(await receiver({ tls: authority.issue("127.0.0.1") }));
    const other = keep(await receiver({ tls: authority.issue(host) }));
    const policy = {
      allowHosts: [],
      allowCidrs: ["127.0.0.1/32"],
      allowHttp: false,
      allowPorts: [endpoint.port, other.port],
      ownHosts: [],
    };
    const { attempt } = keep(attempts({ policy }));
    expect(await attempt(request(`https://127.0.0.1:${endpoint.port}/`))).toMatchObject({ kind: "answer", status: 200 });
    expect(await attempt(request(`https://127.0.0.1:${other.port}/`))).toMatchObject({ kind: "failure", class: "tls" });
  });

  it("ANS-06: thousands of attempts at bad certificates are class tls each, leave no socket, and the heap does not grow", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const endpoints: (Receiver | Awaited<ReturnType<typeof old>>)[] = [keep(await old())];
    for (const [, leaf] of bad) endpoints.push(keep(await receiver({ tls: leaf() })));
    const tries = keep(attempts());
    const run = async (count: number): Promise<void> => {
      let left = count;
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          while (left > 0) {
            const { port } = endpoints[left-- % endpoints.length] as { port: number };
            const result = await tries.attempt(request(`https://${host}:${port}/`));
            if (result.kind !== "failure" || result.class !== "tls") expect.fail(JSON.stringify(result));
          }
        }),
      );
    };
    const heap = async (): Promise<number> => {
      for (let i = 0; i < 3; i++) {
        await new Promise((resolve) => setImmediate(resolve));
        collect();
      }
      return process.memoryUsage().heapUsed;
    };
    await run(400);
    const before = await heap();
    await run(2000);
    const after = await heap();
    expect(after / before).toBeLessThan(1.2);
    expect(tries.open).toBe(0);
  }, 240_000);

  it("P20: a failed handshake takes its socket with it, on both sides", async () => {
    const endpoint = keep(await rawEndpoint(() => {}, authority.expired(host)));
    const tries = keep(attempts());
    expect(await tries.attempt(request(`https://${host}:${endpoint.port}/`))).toMatchObject({ class: "tls" });
    await endpoint.idle();
    expect(endpoint.open).toBe(0);
  });
});
