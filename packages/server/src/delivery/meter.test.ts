import { receiver } from "@millrace/testkit";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { attempts, host, rawEndpoint, request } from "./loopback.suite.ts";
import { meterAttempts } from "./meter.ts";

it("A15: deliveries are counted by a bounded result, whatever an endpoint answers", async () => {
  const registry = new Registry();
  const made = attempts();
  const attempt = meterAttempts(made, registry);
  const endpoint = await receiver({});
  const odd = await rawEndpoint((socket) => socket.end("HTTP/1.1 987 Odd\r\nContent-Length: 0\r\n\r\n"));
  const url = (port: number): string => `http://${host}:${port}/`;
  for (const status of [200, 204, 404, 503]) {
    endpoint.answer({ status });
    expect(await attempt(request(url(endpoint.port)))).toMatchObject({ kind: "answer", status });
  }
  await attempt(request(url(odd.port)));
  await attempt(request("https://169.254.169.254/"));
  await odd.close();
  const text = await registry.metrics();
  for (const line of ['{result="2xx"} 2', '{result="4xx"} 1', '{result="5xx"} 1', '{result="other"} 1', '{result="refused"} 1'])
    expect(text).toContain(`millrace_deliveries_total${line}\n`);
  expect(text).toContain("millrace_delivery_seconds_count 6\n");
  expect(text).toMatch(/millrace_delivery_connections \d+\n/);
  expect(text).not.toContain(host);
  made.close();
  await endpoint.close();
});
