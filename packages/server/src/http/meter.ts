/** Counts requests for `/metrics` (A15). Labels are bounded: the operations of the contract and the status codes we answer. */
import { type OperationName, operations } from "@millrace/contract";
import { Counter, type Registry } from "prom-client";

export interface Meter {
  /** Counts one request by its operation and status; 499 stands for a client that hung up. */
  count(operation: OperationName, status: number): void;
}

/** A meter that registers `millrace_http_requests_total` and fills it only when it is read. */
export function createMeter(registry: Registry): Meter {
  const counts = new Map<OperationName, number[]>((Object.keys(operations) as OperationName[]).map((name) => [name, []]));
  new Counter({
    name: "millrace_http_requests_total",
    help: "Requests by operation and HTTP status; 499 is a client that hung up.",
    labelNames: ["operation", "status"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [operation, byStatus] of counts) {
        byStatus.forEach((count, status) => {
          this.inc({ operation, status }, count);
        });
      }
    },
  });
  return {
    count(operation, status) {
      const byStatus = counts.get(operation);
      if (byStatus !== undefined) byStatus[status] = (byStatus[status] ?? 0) + 1;
    },
  };
}
