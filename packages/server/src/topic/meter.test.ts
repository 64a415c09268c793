import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { createTopicMeter } from "./meter.ts";

it("T17: figures are labelled by topic, and the thousand-and-first topic shares its label with all later ones", async () => {
  const registry = new Registry();
  const meter = createTopicMeter(registry);
  for (let i = 0; i < 1_003; i++) meter.published({ crn: `crn:${i}` });
  meter.published({ crn: "crn:0" });
  const lines = (await registry.metrics()).split("\n").filter((line) => line.startsWith("millrace_topic_published_total{"));
  expect(lines).toHaveLength(1_001);
  expect(lines).toContain('millrace_topic_published_total{topic="crn:0"} 2');
  expect(lines).toContain('millrace_topic_published_total{topic="other"} 3');
});

it("T13, T17: a delivery counts once when it ends, with its latency if it succeeded and its dead letter if it has one", async () => {
  const registry = new Registry();
  const meter = createTopicMeter(registry);
  const topic = { crn: "crn" };
  meter.attempt(topic, "http");
  meter.ended(topic, { outcome: "retry", latencyMs: 5, deadLetter: null });
  meter.attempt(topic, "delivered");
  meter.ended(topic, { outcome: "delivered", latencyMs: 2_500, deadLetter: null });
  meter.ended(topic, { outcome: "failed", latencyMs: 9, deadLetter: "full" });
  const text = await registry.metrics();
  for (const line of [
    'attempts_total{topic="crn",result="http"} 1',
    'delivered_total{topic="crn"} 1',
    'failed_total{topic="crn"} 1',
    'dead_letters_total{topic="crn",result="full"} 1',
    'delivery_seconds_sum{topic="crn"} 2.5',
    'delivery_seconds_count{topic="crn"} 1',
  ])
    expect(text).toContain(`millrace_topic_${line}`);
});
