/** Configuration from the environment (C15), on every runtime that has one. Read when it is needed, not when this module is loaded. */

interface Environments {
  process?: { env?: Record<string, string | undefined> };
  Deno?: { env?: { get(name: string): string | undefined } };
}

/** A variable; `undefined` when it is not set, empty, or may not be read. */
export function variable(name: string): string | undefined {
  const { process, Deno } = globalThis as Environments;
  try {
    return (process?.env?.[name] ?? Deno?.env?.get(name)) || undefined;
  } catch {
    return undefined;
  }
}

/** A list with commas between. */
const listed = (text: string): string[] =>
  text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");

/** The secrets that deliveries may be signed with: `MILLRACE_QUEUE_SIGNING_SECRET` (several with commas), else `GIGADRIVE_QUEUE_SIGNING_SECRET`. */
export function signingSecrets(): string[] {
  const own = variable("MILLRACE_QUEUE_SIGNING_SECRET");
  if (own !== undefined) return listed(own);
  const other = variable("GIGADRIVE_QUEUE_SIGNING_SECRET");
  return other === undefined ? [] : [other];
}

/** The secrets of topic subscriptions: `MILLRACE_NOTIFICATION_SECRET`, several with commas. */
export const notificationSecrets = (): string[] => listed(variable("MILLRACE_NOTIFICATION_SECRET") ?? "");
