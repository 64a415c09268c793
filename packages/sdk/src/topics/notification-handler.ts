/**
 * A topic's webhook as a function from `Request` to `Response` (T6 to T8, T11). Nothing of a request is believed before its signature was
 * checked, a notification that was handled is acknowledged without being handled again, and whatever happens is an answer.
 */
import { notificationSecrets } from "../environment.ts";
import type { PushHandler } from "../handler.ts";
import { type Outcome, outcomeOf } from "../outcome.ts";
import { maxBodyBytes, readBody, refuse } from "../request-body.ts";
import { platform, type Runtime } from "../runtime.ts";
import { listed, type Secrets, verifyNotificationSignature } from "../signature.ts";
import { headerText } from "../text.ts";
import { type Confirmation, type ReceivedNotification, readDelivery } from "./delivery.ts";
import type { SeenNotifications } from "./seen.ts";

/** Finds the secret of a subscription; `undefined` when it is not known (yet). */
export type SecretOf = (subscriptionId: string) => Secrets | undefined | Promise<Secrets | undefined>;

/** What a webhook does with what it gets. */
export interface NotificationHandlerOptions {
  /** The subscription's signing secret, or what finds it; `MILLRACE_NOTIFICATION_SECRET` unless given. While it is unknown, deliveries are retried. */
  secret?: Secrets | SecretOf;
  /** Handles one notification. Returning acknowledges it; what it throws means the same as with queues. */
  onNotification(notification: ReceivedNotification): unknown;
  /** Told of each handshake, before it is confirmed. */
  onConfirmation?(confirmation: Confirmation): unknown;
  /** Whether to confirm by opening the handshake's URL; a function decides for each. `false` unless given. */
  confirm?: boolean | ((confirmation: Confirmation) => boolean | Promise<boolean>);
  /** Remembers what was handled; `seenInMemory()`, or your own. Without it every delivery is handled. */
  seen?: SeenNotifications;
  /** Network and time, for tests. */
  runtime?: Partial<Pick<Runtime, "fetch" | "now">>;
}

/** How long opening a confirmation's URL may take. */
const confirmMs = 10_000;

/** The answer that makes the server do what an outcome says (T11): 2xx acknowledges, 422 is final, 500 is retried. */
function answerOf(outcome: Outcome): Response {
  switch (outcome.kind) {
    case "ack":
      return new Response(null, { status: 204 });
    case "dead-letter":
      return refuse(422, headerText(outcome.reason));
    case "retry":
      return refuse(500, outcome.error);
    case "defer": {
      // not 429 or 503: those would slow the other deliveries down as well
      const later = refuse(500, "later");
      later.headers.set("retry-after", String(outcome.delaySeconds));
      return later;
    }
  }
}

/** Makes the route handler of a topic's webhook. It never rejects. */
export function notificationHandler(options: NotificationHandlerOptions): PushHandler {
  const { onNotification, onConfirmation, confirm = false, seen } = options;
  const { fetch, now } = { ...platform, ...options.runtime };
  /** What is being handled now: a delivery that timed out is sent again while the first may still be at work. */
  const working = new Map<string, Promise<void>>();

  /** The body of a genuine request, or the refusal. */
  const admit = async (request: Request): Promise<Uint8Array | Response> => {
    const subscriptionId = request.headers.get("x-basaltic-subscription-id") ?? "";
    const given = options.secret ?? notificationSecrets();
    const secret = listed((typeof given === "function" ? await given(subscriptionId) : given) ?? []);
    if (secret.length === 0) {
      console.error(
        `subscription ${headerText(subscriptionId)}: no signing secret, so its deliveries are refused for now. Pass secret, or set MILLRACE_NOTIFICATION_SECRET to what \`millrace topics subscriptions signing-secret\` shows.`,
      );
      return refuse(503, "no signing secret is configured");
    }
    const body = await readBody(request);
    if (body === undefined) return refuse(413, `the body must have at most ${maxBodyBytes} bytes`);
    const { headers } = request;
    const signed = { secret, timestamp: headers.get("x-basaltic-timestamp"), body, now: now() };
    const genuine = await verifyNotificationSignature(headers.get("x-basaltic-signature"), signed);
    return genuine ? body : refuse(401, "the signature is missing or not valid");
  };

  const once = async (notification: ReceivedNotification): Promise<void> => {
    const { messageId } = notification;
    const underway = working.get(messageId);
    if (underway !== undefined) return underway;
    const handling = (async () => {
      if ((await seen?.has(messageId)) === true) return;
      await onNotification(notification);
      await seen?.add(messageId);
    })();
    working.set(messageId, handling);
    try {
      await handling;
    } finally {
      working.delete(messageId);
    }
  };

  const confirmed = async (confirmation: Confirmation): Promise<void> => {
    await onConfirmation?.(confirmation);
    if (!(typeof confirm === "function" ? await confirm(confirmation) : confirm)) return;
    const answer = await fetch(confirmation.confirmUrl, { redirect: "manual", signal: AbortSignal.timeout(confirmMs) });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`confirming answered ${answer.status}`);
  };

  return async (request) => {
    try {
      const body = await admit(request);
      if (body instanceof Response) return body;
      const delivery = readDelivery(body, request);
      if (delivery === undefined) return refuse(400, "this is neither a notification nor a confirmation");
      if (delivery.kind === "confirmation") await confirmed(delivery.confirmation);
      else if (seen === undefined) await onNotification(delivery.notification);
      else await once(delivery.notification);
      return answerOf({ kind: "ack" });
    } catch (thrown) {
      return answerOf(outcomeOf(thrown));
    }
  };
}
