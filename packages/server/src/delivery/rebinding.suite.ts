/**
 * Runs inside a network namespace of its own (SSRF-04): a public address on the loopback device, an inner listener on every address that
 * must never be reached, and a name server that answers by turns the one and the other. Makes its deliveries with the product's own
 * resolver and a policy that opens nothing, and prints what happened as one line of JSON.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { certificates, receiver } from "@millrace/testkit";
import { createAttempt } from "./attempt.ts";

const [outerAddress, innerAddresses, count] = [process.argv[2] as string, (process.argv[3] as string).split(","), Number(process.argv[4])];
const name = "hooks.example.com";
const authority = certificates();

let inner = 0;
for (const address of innerAddresses) {
  const server = createServer((socket) => {
    inner += 1;
    socket.destroy();
  });
  server.listen(443, address);
  await once(server, "listening");
}

let asked = 0;
const dns = createSocket("udp4");
dns.on("message", (question, from) => {
  // The question section ends four bytes after the root label of its name.
  let end = 12;
  while (question[end] !== 0) end += (question[end] as number) + 1;
  const type = question.readUInt16BE(end + 1);
  const answers: number[] = [];
  if (type === 1) {
    asked += 1;
    const address = asked % 3 === 0 ? (innerAddresses[asked % innerAddresses.length] as string) : outerAddress;
    answers.push(0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split(".").map(Number));
  }
  const head = [question[0] as number, question[1] as number, 0x81, 0x80, 0, 1, 0, answers.length === 0 ? 0 : 1, 0, 0, 0, 0];
  dns.send(Uint8Array.from([...head, ...question.subarray(12, end + 5), ...answers]), from.port, from.address);
});
dns.bind(53, "127.0.0.1");
await once(dns, "listening");

const outer = await receiver({
  tls: authority.issue(name),
  host: outerAddress,
  port: 443,
  // Some connections are kept, some are not: a name is asked for at every new one.
  answer: ({ order }) => (order % 2 === 0 ? { headers: { connection: "close" } } : {}),
});
const policy = { allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: [] };
const tries = createAttempt({ policy, ca: [authority.ca] });
const seen: Record<string, number> = {};
const messages = new Set<string>();
for (let i = 0; i < count; i += 4) {
  const results = await Promise.all(
    Array.from({ length: 4 }, () =>
      tries.attempt({ url: `https://${name}/q`, method: "POST", headers: {}, body: new Uint8Array(3), timeoutMs: 20_000 }),
    ),
  );
  for (const result of results) {
    const kind = result.kind === "answer" ? String(result.status) : result.class;
    seen[kind] = (seen[kind] ?? 0) + 1;
    if (result.kind === "failure") messages.add(result.message);
  }
}
const hosts = [...new Set(outer.requests.map(({ headers }) => headers.host))];
const report = { inner, asked, outer: outer.connections, requests: outer.requests.length, hosts, seen, messages: [...messages] };
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
