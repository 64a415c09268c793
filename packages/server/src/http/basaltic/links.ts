/**
 * What the links of notifications lead to (T2, T6), open to whoever has one: `GET /v1/confirm` confirms, `/v1/unsubscribe` shows a
 * page whose button ends the subscription. A link that is only looked at (HEAD, or a browser that fetches ahead) changes nothing, and
 * no GET ends anything. Browsers get pages, everybody else JSON.
 */
import { Fault } from "@millrace/contract";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Audit } from "../../identity/audit.ts";
import type { TopicSubscriptions } from "../../topic/topic-subscription.ts";
import { keepLink } from "../audit.ts";
import { readQuery } from "../query-text.ts";
import { type Page, pageHeaders, pageHtml } from "./page.ts";

/** What the links need of topic subscriptions. */
export type Links = Pick<TopicSubscriptions, "confirm" | "unsubscribe" | "checkUnsubscribe">;

const BODY_LIMIT = 16_384;
const BAD: Page = {
  title: "This link is not valid",
  text: "It has expired, or the subscription has ended. Nothing was changed.",
};

const tokenOf = (request: FastifyRequest): string => readQuery((request.query as { text?: string }).text ?? "").token ?? "";
const wantsPage = ({ headers }: FastifyRequest): boolean => (headers.accept ?? "").includes("text/html");
/** Whether nobody asked to follow the link yet. */
const onlyLooks = ({ method, headers }: FastifyRequest): boolean =>
  method === "HEAD" ||
  [headers["sec-purpose"], headers.purpose, headers["x-moz"]].some((purpose) => /prefetch|preview/.test(String(purpose)));

/** Answers with a page for a browser, with `json` for everybody else. */
function answer(request: FastifyRequest, reply: FastifyReply, page: Page, json: unknown): FastifyReply {
  if (!wantsPage(request)) return reply.type("application/json; charset=utf-8").send(JSON.stringify(json));
  return reply.headers(pageHeaders).send(pageHtml(page));
}

/** Adds the routes; answers them. What they change is kept in `audit` before it is answered. */
export function addLinks(app: FastifyInstance, links: Links, audit?: Audit): { method: string; path: string }[] {
  /** A refused token is a page too, where a page was asked for. */
  const guarded =
    (handle: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      try {
        return await handle(request, reply);
      } catch (error) {
        if (!(error instanceof Fault) || error.code !== "invalid_token" || !wantsPage(request)) throw error;
        return reply.code(error.status).headers(pageHeaders).send(pageHtml(BAD));
      }
    };

  const confirm = guarded(async (request, reply) => {
    if (onlyLooks(request)) return reply.code(204).send();
    const { topic, subscription, first } = await links.confirm(tokenOf(request));
    if (first) await keepLink(audit, { raw: request.raw, requestId: request.id }, "ConfirmByLink", subscription);
    return answer(
      request,
      reply,
      { title: "Subscription confirmed", text: `Notifications of ${topic.name} are now sent to ${subscription.endpoint}.` },
      { subscription: { id: subscription.id, topic_name: topic.name, state: subscription.state } },
    );
  });
  const ask = guarded(async (request, reply) => {
    links.checkUnsubscribe(tokenOf(request));
    if (request.method === "HEAD") return reply.code(204).send();
    const page = { title: "Unsubscribe", text: "Stop sending notifications to this endpoint?", button: "Unsubscribe" };
    return reply.headers(pageHeaders).send(pageHtml(page));
  });
  const unsubscribe = guarded(async (request, reply) => {
    const ended = await links.unsubscribe(tokenOf(request));
    if (ended !== null) await keepLink(audit, { raw: request.raw, requestId: request.id }, "UnsubscribeByLink", ended);
    return answer(
      request,
      reply,
      { title: "Unsubscribed", text: "No more notifications are sent to this endpoint." },
      { subscription: { state: "unsubscribed" } },
    );
  });

  app.register((scope, _options, done) => {
    // What a button or a mail program sends with its POST says nothing that the address does not.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, _body, next) => next(null));
    const options = { bodyLimit: BODY_LIMIT };
    scope.get("/v1/confirm", options, confirm);
    scope.post("/v1/confirm", options, confirm);
    scope.get("/v1/unsubscribe", options, ask);
    scope.post("/v1/unsubscribe", options, unsubscribe);
    done();
  });
  return ["/v1/confirm", "/v1/unsubscribe"].flatMap((path) => [
    { method: "GET", path },
    { method: "POST", path },
  ]);
}
