/**
 * Which operations manage: they change what is set up, or show a secret, and are kept in the audit log (A7). What moves messages and runs,
 * and what only looks, does not.
 */
import { type OperationName, operations } from "./operations.ts";
import { routes } from "./routes.ts";

/** Permissions of the traffic itself. */
const TRAFFIC: ReadonlySet<string | null> = new Set([
  null,
  "queues.messages.send",
  "queues.messages.receive",
  "queues.messages.ack",
  "notifications.messages.publish",
  "workflows.apps.work",
  "workflows.runs.start",
]);
const SECRETS = /\.secrets\.read$/;

/** Whether calls of an operation are kept in the audit log. */
export function isManagement(name: OperationName): boolean {
  const { permission } = operations[name];
  if (routes[name].method === "GET") return permission !== null && SECRETS.test(permission);
  return !TRAFFIC.has(permission);
}
