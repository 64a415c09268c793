/**
 * The consumer of a push queue as a function from `Request` to `Response` (C12). Nothing of a request is believed, decoded or handed to
 * the handler before its signature was checked, and no outcome of a handler ever rejects: every one is an answer (C3).
 */
import type { Codec } from "./codec.ts";
import { signingSecrets } from "./environment.ts";
import { asDate, type MessageMeta } from "./meta.ts";
import { outcomeOf } from "./outcome.ts";
import { openPayload, type Validate } from "./payload.ts";
import { maxBodyBytes, readBody, refuse } from "./request-body.ts";
import { listed, readAttempt, type Secrets, verifyQueueSignature } from "./signature.ts";
import { headerText } from "./text.ts";

/** Handles one message. What it returns is ignored: returning acknowledges. */
export type MessageHandler<T> = (payload: T, meta: MessageMeta) => unknown;
/** What `handler` makes: a route handler. Never rejects. */
export type PushHandler = (request: Request) => Promise<Response>;

/** What `handler` must know about its queue. */
export interface PushOptions<T> {
  queue: string;
  codec?: Codec<T>;
  validate?: Validate<T>;
  signingSecret?: Secrets;
  allowUnsigned?: boolean;
}

const own = "x-gigadrive-queue-";

function metaOf(queue: string, { headers, signal }: Request, random: () => string): MessageMeta {
  const text = (name: string): string | undefined => headers.get(own + name) ?? undefined;
  return {
    queue,
    messageId: text("message-id") ?? random(),
    attempt: readAttempt(text("attempt") ?? "") ?? 1,
    createdAt: asDate(text("created-at")),
    expiresAt: asDate(text("expires-at")),
    deadline: asDate(text("deadline")),
    groupKey: text("group-key"),
    deduplicationKey: text("deduplication-key"),
    deploymentId: text("deployment-id"),
    deploymentFallback: text("deployment-fallback"),
    contentType: headers.get("content-type") ?? undefined,
    headers,
    signal,
  };
}

/** The answer to what a handler threw. */
function answerOf(thrown: unknown): Response {
  const outcome = outcomeOf(thrown);
  switch (outcome.kind) {
    case "defer":
      return new Response(null, { status: 204, headers: { [`${own}retry-after`]: String(outcome.delaySeconds) } });
    case "dead-letter":
      // An answer that loses its headers on the way must not read as an acknowledgement: a status that is tried again.
      return new Response(null, { status: 422, headers: { [`${own}action`]: "dead-letter", [`${own}error`]: headerText(outcome.reason) } });
    case "retry":
      return refuse(500, outcome.error);
    case "ack":
      return new Response(null, { status: 204 });
  }
}

/** Makes the route handler. `now` and `random` are real time and fresh ids. */
export function createPushHandler<T>(
  options: PushOptions<T>,
  handle: MessageHandler<T>,
  { now, uuid }: { now: () => number; uuid: () => string },
): PushHandler {
  const { queue } = options;

  /** The body of a genuine delivery to this queue, or the refusal. */
  const admit = async (request: Request): Promise<Uint8Array | Response> => {
    const secret = listed(options.signingSecret ?? signingSecrets());
    const header = request.headers.get(`${own}signature`);
    if (secret.length === 0) {
      if (options.allowUnsigned !== true) {
        console.error(
          `queue ${queue}: no signing secret, so every delivery is refused. Set MILLRACE_QUEUE_SIGNING_SECRET (or GIGADRIVE_QUEUE_SIGNING_SECRET), or pass signingSecret; allowUnsigned: true is for development only.`,
        );
        return refuse(500, "no signing secret is configured");
      }
    } else if (header !== null || options.allowUnsigned !== true) {
      const text = (name: string): string => request.headers.get(own + name) ?? "";
      const body = header === null ? undefined : await readBody(request);
      const signed = { secret, queue: text("name"), messageId: text("message-id"), attempt: text("attempt"), body: body ?? "", now: now() };
      if (body === undefined || !(await verifyQueueSignature(header, signed))) return refuse(401, "the signature is missing or not valid");
      return signed.queue === queue ? body : refuse(400, `this is the consumer of ${queue}, not of ${signed.queue}`);
    }
    const named = request.headers.get(`${own}name`);
    if (named !== null && named !== queue) return refuse(400, `this is the consumer of ${queue}, not of ${named}`);
    return (await readBody(request)) ?? refuse(413, `the body must have at most ${maxBodyBytes} bytes`);
  };

  return async (request) => {
    try {
      const body = await admit(request);
      if (body instanceof Response) return body;
      const meta = metaOf(queue, request, uuid);
      await handle(await openPayload(body, meta.contentType, options), meta);
      return new Response(null, { status: 204 });
    } catch (thrown) {
      return answerOf(thrown);
    }
  };
}
