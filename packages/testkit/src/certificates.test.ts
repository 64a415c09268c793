import { request } from "node:https";
import { expect, it } from "vitest";
import { certificates, type Leaf, receiver } from "./index.ts";

const authority = certificates();

/** The status, or the code of the TLS error, of a request made to `hooks.example.com` at this certificate. */
async function meet(tls: Leaf, ca = authority.ca): Promise<number | string> {
  const endpoint = await receiver({ tls });
  try {
    return await new Promise((resolve) => {
      const options = { host: "127.0.0.1", port: endpoint.port, servername: "hooks.example.com", ca, agent: false };
      const call = request(options, (response) => resolve(response.statusCode ?? 0));
      call.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      call.end();
    });
  } finally {
    await endpoint.close();
  }
}

it("a leaf is accepted for its name, and for nothing else", async () => {
  expect(await meet(authority.issue("hooks.example.com"))).toBe(200);
  expect(await meet(authority.wrongName())).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
});

it("expired, self-signed and foreign leaves are told apart", async () => {
  expect(await meet(authority.expired("hooks.example.com"))).toBe("CERT_HAS_EXPIRED");
  expect(await meet(authority.selfSigned("hooks.example.com"))).toBe("DEPTH_ZERO_SELF_SIGNED_CERT");
  expect(await meet(authority.issue("hooks.example.com"), certificates().ca)).toMatch(/UNABLE_TO|SELF_SIGNED|SIGNATURE/);
});
