// The consumer of a push queue as a route handler, the shape of Next.js (app/api/queues/emails/route.ts) and of most frameworks.
// It checks the delivery's signature with MILLRACE_QUEUE_SIGNING_SECRET and needs no other configuration.
import { type MessageMeta, NonRetryableError, queue, RetryLaterError } from "@millrace/sdk";

interface Email {
  to: string;
  template: string;
}

const templates = new Set(["welcome", "receipt"]);
const emails = queue<Email>("emails");

export const POST = emails.handler(async (email, { messageId, attempt }: MessageMeta) => {
  if (!templates.has(email.template)) throw new NonRetryableError(`Unknown template ${email.template}`);
  if (email.to.endsWith("@busy.example") && attempt === 1) throw new RetryLaterError("1m");
  // Your work goes here. A message may come more than once: its id is the idempotency key of what you do.
  console.log(`sent ${email.template} to ${email.to} (${messageId})`);
});
