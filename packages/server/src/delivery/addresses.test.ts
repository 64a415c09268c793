import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addressAllowed, parseBlock, readAddress } from "./addresses.ts";

const closed = { blocks: [], hostNamed: false };
const named = { blocks: [], hostNamed: true };

const refused: Record<string, string[]> = {
  private: ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"],
  loopback: ["127.0.0.1", "127.255.255.254", "::1"],
  "link-local": ["169.254.1.1", "fe80::1", "febf::1"],
  shared: ["100.64.0.1", "100.127.255.255"],
  "unique-local": ["fc00::1", "fdff::1"],
  "site-local": ["fec0::1"],
  unspecified: ["0.0.0.0", "0.1.2.3", "::"],
  multicast: ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
  broadcast: ["255.255.255.255"],
  documentation: ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
  benchmarking: ["198.18.0.1", "198.19.255.255", "2001:2::1"],
  reserved: ["192.0.0.1", "240.0.0.1", "254.1.1.1", "192.88.99.1", "100::1", "2001:10::1", "4000::1", "8000::1", "5f00::1"],
  mapped: ["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"],
  compatible: ["::127.0.0.1", "::10.0.0.1", "::8.8.8.8"],
  translated: ["::ffff:0:127.0.0.1"],
  nat64: ["64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8"],
  "6to4": ["2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::"],
  teredo: ["2001:0:a00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001::"],
  metadata: [
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:168.63.129.16",
    "64:ff9b::168.63.129.16",
    "2002:a83f:8110::",
  ],
  unreadable: [
    "",
    "localhost",
    "1.2.3",
    "0x7f.0.0.1",
    "010.0.0.1",
    "1.2.3.4.5",
    "256.1.1.1",
    " 8.8.8.8",
    "8.8.8.8 ",
    "fe80::1%eth0",
    "2606:4700::1111%1",
    "::g",
    "8.8.8.8/32",
  ],
};

describe("which addresses may be dialled", () => {
  for (const [kind, addresses] of Object.entries(refused)) {
    it(`P19: ${kind} addresses are refused`, () => {
      for (const address of addresses) expect(addressAllowed(address, closed), address).toBe(false);
    });
  }

  it("P19: public unicast addresses are allowed, also carried inside NAT64 and mapped forms", () => {
    for (const address of [
      "8.8.8.8",
      "1.1.1.1",
      "172.15.255.255",
      "172.32.0.1",
      "100.63.255.255",
      "100.128.0.1",
      "223.255.255.255",
      "2606:4700::1111",
      "2a00:1450:4001:830::200e",
      "::ffff:8.8.8.8",
      "64:ff9b::8.8.8.8",
    ]) {
      expect(addressAllowed(address, closed), address).toBe(true);
    }
  });

  it("P19: every wrapped form of an IPv4 address that is refused is refused", () => {
    fc.assert(
      fc.property(fc.ipV4(), (four) => {
        if (addressAllowed(four, closed)) return;
        const [a, b, c, d] = four.split(".").map(Number) as [number, number, number, number];
        const high = ((a << 8) | b).toString(16);
        const low = ((c << 8) | d).toString(16);
        const flipped = `${(0xffff ^ ((a << 8) | b)).toString(16)}:${(0xffff ^ ((c << 8) | d)).toString(16)}`;
        for (const form of [
          `::ffff:${four}`,
          `::${four}`,
          `64:ff9b::${four}`,
          `2002:${high}:${low}::1`,
          `2001:0:${high}:${low}::`,
          `2001:0:808:808:0:0:${flipped}`,
        ]) {
          expect(addressAllowed(form, closed), form).toBe(false);
        }
      }),
    );
  });

  it("P21: a block opens its addresses and no others, in their IPv4-mapped form too", () => {
    const blocks = ["10.1.0.0/16", "fd12::/16", "192.168.7.7"].map(parseBlock);
    for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "fd12::9", "192.168.7.7"]) {
      expect(addressAllowed(address, { blocks, hostNamed: false }), address).toBe(true);
    }
    for (const address of ["10.2.0.1", "192.168.7.8", "fd13::1", "64:ff9b::10.1.2.3", "127.0.0.1"]) {
      expect(addressAllowed(address, { blocks, hostNamed: false }), address).toBe(false);
    }
    expect(() => parseBlock("10.0.0.0/33")).toThrow();
    expect(() => parseBlock("everything")).toThrow();
  });

  it("P21: a named host may be private, loopback, unique-local or shared, but not link-local, multicast, unspecified or metadata", () => {
    for (const address of ["10.0.0.1", "127.0.0.1", "::1", "fd00::1", "100.64.0.1"])
      expect(addressAllowed(address, named), address).toBe(true);
    for (const address of [
      "169.254.1.1",
      "169.254.169.254",
      "fe80::1",
      "224.0.0.1",
      "0.0.0.0",
      "::",
      "168.63.129.16",
      "100.100.100.200",
      "fd00:ec2::254",
    ]) {
      expect(addressAllowed(address, named), address).toBe(false);
    }
  });

  it("P21: metadata addresses stay refused inside a block of any size but their own", () => {
    const all = { blocks: ["0.0.0.0/0", "::/0"].map(parseBlock), hostNamed: true };
    expect(addressAllowed("169.254.169.254", all)).toBe(false);
    expect(addressAllowed("fd00:ec2::254", all)).toBe(false);
    expect(addressAllowed("169.254.169.254", { blocks: [parseBlock("169.254.169.254/32")], hostNamed: false })).toBe(true);
  });

  it("SSRF-06: reading an address never throws", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 60 }), fc.ipV6(), fc.ipV4Extended()), (text) => {
        readAddress(text);
        addressAllowed(text, named);
      }),
    );
  });
});
