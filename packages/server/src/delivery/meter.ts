/** Counts deliveries for `/metrics` (A15), whatever their format. The label is bounded: the kinds of answers and the classes of failures. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Attempts } from "./attempt.ts";
import type { Attempt, DeliveryResult } from "./types.ts";

const KINDS = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];

const resultOf = (result: DeliveryResult): string =>
  result.kind === "failure" ? result.class : (KINDS[Math.floor(result.status / 100)] ?? "other");

/**
 * The same way to call endpoints, counted: registers `millrace_deliveries_total` (by `result`: `2xx` … `5xx`, `other`, or the class of the
 * failure), `millrace_delivery_seconds`, and `millrace_delivery_connections`, the sockets that are open.
 */
export function meterAttempts(attempts: Attempts, registry: Registry): Attempt {
  const counts = new Map<string, number>();
  new Counter({
    name: "millrace_deliveries_total",
    help: "Requests to endpoints by result: the kind of the answer's status, or the class of the failure.",
    labelNames: ["result"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [result, count] of counts) this.inc({ result }, count);
    },
  });
  const seconds = new Histogram({
    name: "millrace_delivery_seconds",
    help: "How long requests to endpoints took, in seconds, failures included.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [registry],
  });
  new Gauge({
    name: "millrace_delivery_connections",
    help: "Connections to endpoints that are open, idle ones included.",
    registers: [registry],
    collect() {
      this.set(attempts.open);
    },
  });
  const counted = (result: DeliveryResult): DeliveryResult => {
    const name = resultOf(result);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    seconds.observe(result.durationMs / 1000);
    return result;
  };
  return (request, signal) => attempts.attempt(request, signal).then(counted);
}
