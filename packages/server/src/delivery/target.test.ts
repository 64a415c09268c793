import { Fault } from "@millrace/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkTarget, readTarget } from "./target.ts";
import type { EgressPolicy } from "./types.ts";

const strict: EgressPolicy = { allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: ["Hooks.Millrace.Example."] };
const opened = (given: Partial<EgressPolicy>): EgressPolicy => ({ ...strict, ...given });

/** The rule that `url` breaks, or "" when it passes. */
function broken(url: string, policy = strict): string {
  try {
    checkTarget(url, policy);
    return "";
  } catch (error) {
    expect(error).toBeInstanceOf(Fault);
    const fault = error as Fault;
    expect(fault.code).toBe("invalid_target");
    expect(fault.status).toBe(400);
    expect(fault.details?.path).toBe("target.url");
    return fault.details?.bound ?? "?";
  }
}

describe("what may be a target", () => {
  it("P18, SSRF-09: a public https URL passes as it is, port 443 left out or written", () => {
    for (const url of [
      "https://example.com",
      "https://hooks.example.com/queues/orders?x=1&y=%20",
      "https://example.com:443/",
      "HTTPS://EXAMPLE.com/",
      "https://xn--bcher-kva.example/",
      "https://bücher.example/",
      "https://a.b.c.d.e.example.co.uk/",
      "https://1.2.3.4.example/",
    ]) {
      expect(broken(url), url).toBe("");
    }
  });

  it("P18, SSRF-01: no IP address in any notation is a host, public ones included", () => {
    for (const host of [
      "127.1",
      "2130706433",
      "0x7f.1",
      "0x7f000001",
      "017700000001",
      "0177.0.0.1",
      "0",
      "127.0.0.1",
      "127.0.0.1.",
      "１２７.０.０.１",
      "127。0。0。1",
      "%31%32%37.0.0.1",
      "8.8.8.8",
      "[::1]",
      "[::]",
      "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]",
      "[::127.0.0.1]",
      "[64:ff9b::7f00:1]",
      "[2002:7f00:1::]",
      "[fe80::1]",
      "[2606:4700::1111]",
    ]) {
      expect(broken(`https://${host}/`), host).toBe("a public DNS name, not an IP address in any notation");
    }
    for (const host of ["127.0.0.256", "1.2.3.4.5", "[fe80::1%25eth0]", "[::1", "[:::]"])
      expect(broken(`https://${host}/`), host).not.toBe("");
  });

  it("P18, SSRF-02: forbidden names are refused with or without a trailing dot, in any case and script", () => {
    for (const host of [
      "localhost",
      "localhost.",
      "LOCALHOST",
      "ＬＯＣＡＬＨＯＳＴ",
      "x.localhost",
      "foo.local.",
      "metadata.google.internal.",
      "metadata。google。internal",
      "x.test.",
      "X.Test",
      "a.svc.",
      "a.b.svc",
      "single",
      "single.",
      "foo.ezgh.app.",
      "ezghcloud.com",
      "api.ezghcloud.com",
      "hooks.millrace.example",
      "x.HOOKS.millrace.example.",
    ]) {
      expect(broken(`https://${host}/`), host).toMatch(/^a public DNS name, not /);
    }
    for (const host of ["notlocalhost.example", "local.example", "svc.example", "millrace.example", "testing.example"]) {
      expect(broken(`https://${host}/`), host).toBe("");
    }
  });

  it("P18, SSRF-02: a public name with a trailing dot passes, and neither SNI nor Host carries the dot", () => {
    const target = readTarget("https://Example.com./x", strict);
    expect(target.host).toBe("example.com");
    expect(target.authority).toBe("example.com");
    expect(broken("https://example.com../")).not.toBe("");
    expect(broken("https://.example.com/")).not.toBe("");
    expect(broken("https://a..example.com/")).not.toBe("");
  });

  it("P18, SSRF-06: malformed and oversized names are refused, in punycode too", () => {
    for (const host of [
      "xn--.example",
      "xn--a.example",
      "xn--\u00fc.example",
      "xn--999999999.example",
      `${"a".repeat(64)}.example`,
      `${"ü".repeat(60)}.example`,
      `${"a".repeat(300)}.example`,
      `${"abc.".repeat(63)}example`,
      "-a.example",
      "a-.example",
      "under_score.example.com",
      "a%00b.example",
      "a%2fb.example",
      "a*b.example",
      "exa\u00admple..com",
    ]) {
      expect(broken(`https://${host}/`), host).not.toBe("");
    }
    expect(broken("https://XN--BCHER-KVA.example/")).toBe("");
    expect(broken(`https://${"a".repeat(63)}.example/`)).toBe("");
  });

  it("P18, SSRF-09: other schemes, ports, credentials and fragments are refused, even when the parser would hide them", () => {
    const rules: Record<string, string> = {
      "http://example.com/": "https:// only",
      "ftp://example.com/": "https:// only",
      "file:///etc/passwd": "an absolute https:// URL with a host",
      "//example.com/": "an absolute https:// URL with a host",
      "example.com": "an absolute https:// URL with a host",
      "": "an absolute https:// URL with a host",
      "https:example.com": "an absolute https:// URL with a host",
      "https:/example.com": "an absolute https:// URL with a host",
      "https:///example.com": "an absolute https:// URL with a host",
      "https://example.com:444/": "port 443 only",
      "https://example.com:80/": "port 443 only",
      "https://example.com:0443/": "port 443, left out or written plainly",
      "https://example.com:/": "port 443, left out or written plainly",
      "https://user:pw@example.com/": "no user name or password",
      "https://user@example.com/": "no user name or password",
      "https://@example.com/": "no user name or password",
      "https://:@example.com/": "no user name or password",
      "https://example.com/#f": "no fragment",
      "https://example.com/#": "no fragment",
      "https://example.com#@evil.example/": "no fragment",
    };
    for (const [url, rule] of Object.entries(rules)) expect(broken(url), url).toBe(rule);
    expect(broken("https://example.com:65536/")).not.toBe("");
    expect(broken("https://example.com:99999/")).not.toBe("");
  });

  it("P18, SSRF-09: a control character, space, backslash or byte order mark is refused wherever it stands", () => {
    for (const odd of [
      "\t",
      "\n",
      "\r",
      "\u0000",
      "\u001f",
      "\u007f",
      "\u0085",
      " ",
      "\u00a0",
      "\u2028",
      "\u3000",
      "\ufeff",
      "\\",
      "\ud800",
    ]) {
      for (const url of [
        `${odd}https://example.com/`,
        `https://exam${odd}ple.com/`,
        `https://example.com/a${odd}b`,
        `https://example.com/${odd}`,
      ]) {
        expect(broken(url), JSON.stringify(url)).toBe("no space, control character or backslash");
      }
    }
  });

  it("P18, SSRF-09: 2,048 characters pass and 2,049 do not, counted on the text as given", () => {
    const url = (length: number) => `https://example.com/${"a".repeat(length - 20)}`;
    expect(broken(url(2048))).toBe("");
    expect(broken(url(2049))).toBe("at most 2,048 characters");
  });

  it("P18: the error names the rule, never the credentials", () => {
    for (const url of ["https://user:hunter2@example.com/", "https:user:hunter2@example.com/", "https:\\\\user:hunter2@example.com/"]) {
      try {
        checkTarget(url, strict);
        expect.unreachable();
      } catch (error) {
        expect(`${(error as Fault).message} ${JSON.stringify((error as Fault).details)}`).not.toContain("hunter2");
      }
    }
    expect(broken("https://user:hunter2@example.com/")).toBe("no user name or password");
  });

  it("SSRF-09: what passes is dialled as it reads: the parsed host, port and path are those of the text", () => {
    fc.assert(
      fc.property(fc.webUrl({ validSchemes: ["https"], withQueryParameters: true }), (url) => {
        if (broken(url) !== "") return;
        const target = readTarget(url, strict);
        expect(url.toLowerCase().startsWith(`https://${target.host}`)).toBe(true);
        expect(target.port).toBe(443);
        expect(target.path).toBe(new URL(url).pathname + new URL(url).search);
      }),
    );
  });
});

describe("what self-hosting opens", () => {
  it("P21: allowHosts opens exactly the names in it, single labels and own names included", () => {
    const policy = opened({ allowHosts: ["worker", "App.Internal", "hooks.millrace.example", "localhost"] });
    for (const host of ["worker", "WORKER.", "app.internal", "hooks.millrace.example", "localhost"]) {
      expect(broken(`https://${host}/`, policy), host).toBe("");
      expect(readTarget(`https://${host}/`, policy).hostNamed).toBe(true);
    }
    for (const host of ["other", "x.app.internal", "internal", "x.localhost", "127.0.0.1"])
      expect(broken(`https://${host}/`, policy), host).not.toBe("");
  });

  it("P21: an address inside an opened block is a valid target, and only there", () => {
    const policy = opened({ allowCidrs: ["10.1.0.0/16", "fd12::/16", "127.0.0.1/32"] });
    for (const host of ["10.1.2.3", "10.1.255.255", "[fd12::1]", "127.0.0.1", "127.1", "[::ffff:10.1.0.9]"]) {
      expect(broken(`https://${host}/`, policy), host).toBe("");
      expect(readTarget(`https://${host}/`, policy).literal).toBe(true);
    }
    for (const host of ["10.2.0.1", "[fd13::1]", "127.0.0.2", "8.8.8.8", "[::1]", "[::ffff:10.2.0.9]", "169.254.169.254"]) {
      expect(broken(`https://${host}/`, policy), host).toBe("a public DNS name, not an IP address in any notation");
    }
  });

  it("P21: cloud metadata stays closed within an opened block; naming the single address opens it", () => {
    expect(broken("https://169.254.169.254/", opened({ allowCidrs: ["0.0.0.0/0"] }))).not.toBe("");
    expect(broken("https://169.254.169.254/", opened({ allowCidrs: ["169.254.0.0/16"] }))).not.toBe("");
    expect(broken("https://169.254.169.254/", opened({ allowCidrs: ["169.254.169.254/32"] }))).toBe("");
  });

  it("P21: allowHttp opens http on port 80, allowPorts the ports in it, and neither anything else", () => {
    const policy = opened({ allowHttp: true, allowPorts: [3000] });
    for (const url of ["http://example.com/", "http://example.com:80/", "http://example.com:3000/", "https://example.com:3000/"]) {
      expect(broken(url, policy), url).toBe("");
    }
    for (const url of ["https://example.com:80/", "http://example.com:443/", "http://example.com:3001/", "ftp://example.com/"]) {
      expect(broken(url, policy), url).not.toBe("");
    }
    expect(broken("http://example.com:3000/", opened({ allowPorts: [3000] }))).toBe("https:// only");
    expect(broken("http://localhost/", policy)).not.toBe("");
    expect(readTarget("http://example.com:3000/a", policy)).toMatchObject({ scheme: "http", authority: "example.com:3000", port: 3000 });
    expect(readTarget("https://[fd12::1]:3000/", opened({ allowCidrs: ["fd12::/16"], allowPorts: [3000] }))).toMatchObject({
      host: "fd12::1",
      authority: "[fd12::1]:3000",
    });
  });
});
