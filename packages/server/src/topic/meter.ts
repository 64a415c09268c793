/**
 * Figures of topics for `/metrics` (T17): publications, matches, deliveries, attempts by class and how long deliveries took. Labels are
 * bounded: the first 1,000 topics have figures of their own, all others share `other`.
 */
import { Counter, Histogram, type Registry } from "prom-client";

const MOST_TOPICS = 1_000;

/** How a topic is named in a label. */
interface Named {
  crn: string;
}

export interface TopicMeter {
  published(topic: Named): void;
  /** A stretch of a fan-out; `delivered` are those that a queue has already. */
  moved(topic: Named, counts: { matched: number; filtered: number; delivered: number }): void;
  /** An attempt by what it came to: `delivered` or a failure's class. */
  attempt(topic: Named, result: string): void;
  /** What a delivery stands at after an attempt; `latencyMs` from its fan-out. */
  ended(
    topic: Named,
    delivery: { outcome: "delivered" | "retry" | "failed"; latencyMs: number; deadLetter: "stored" | "missing" | "full" | null },
  ): void;
}

/** Makes the figures and registers them. */
export function createTopicMeter(registry: Registry): TopicMeter {
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
    new Counter({ name: `millrace_topic_${name}_total`, help, labelNames, registers });
  const published = counter("published", "Notifications accepted.", "topic");
  const matched = counter("matched", "Subscriptions that notifications reached.", "topic");
  const filtered = counter("filtered", "Subscriptions whose filter kept notifications away.", "topic");
  const delivered = counter("delivered", "Deliveries that succeeded.", "topic");
  const failed = counter("failed", "Deliveries that failed for good.", "topic");
  const attempts = counter("attempts", "Attempts of deliveries by what they came to.", "topic", "result");
  const deadLetters = counter("dead_letters", "Failures by what became of their dead letter.", "topic", "result");
  const latency = new Histogram({
    name: "millrace_topic_delivery_seconds",
    help: "Time from the fan-out to the success of a delivery.",
    labelNames: ["topic"],
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 300, 3_600, 86_400],
    registers,
  });
  const known = new Set<string>();
  const labelOf = ({ crn }: Named): { topic: string } => {
    if (!known.has(crn)) {
      if (known.size >= MOST_TOPICS) return { topic: "other" };
      known.add(crn);
    }
    return { topic: crn };
  };

  return {
    published: (topic) => published.inc(labelOf(topic)),
    moved(topic, counts) {
      const label = labelOf(topic);
      matched.inc(label, counts.matched);
      filtered.inc(label, counts.filtered);
      if (counts.delivered === 0) return;
      delivered.inc(label, counts.delivered);
      attempts.inc({ ...label, result: "delivered" }, counts.delivered);
      for (let i = 0; i < counts.delivered; i++) latency.observe(label, 0);
    },
    attempt: (topic, result) => attempts.inc({ ...labelOf(topic), result }),
    ended(topic, { outcome, latencyMs, deadLetter }) {
      const label = labelOf(topic);
      if (deadLetter !== null) deadLetters.inc({ ...label, result: deadLetter });
      if (outcome === "failed") failed.inc(label);
      if (outcome !== "delivered") return;
      delivered.inc(label);
      latency.observe(label, latencyMs / 1000);
    },
  };
}
