/** Handlers of topics: look up and authorize, then the topic's verbs. */
import type { Access } from "../../identity/access.ts";
import type { TopicRow, Topics } from "../../topic/topic.ts";
import { wireTopic } from "../../topic/wire.ts";
import type { Handlers } from "../handler.ts";
import { type Account, type Accounts, keyWithin, topicMissing, topicResource } from "./account.ts";
import { PAGE, pageMeta, readMarker } from "./marker.ts";

type Names = "CreateTopic" | "ListTopics" | "GetTopic" | "UpdateTopic" | "DeleteTopic";

/** The handlers of topics. */
export function topicHandlers(deps: { access: Access; accounts: Accounts; topics: Topics }): Pick<Handlers, Names> {
  const { access, accounts, topics } = deps;
  const show = (topic: TopicRow, { place }: Account) => ({ topic: wireTopic(topic, place) });

  return {
    async CreateTopic(call, { body }) {
      const account = await accounts.of(call);
      const { project } = account;
      access.demand(call.caller, "notifications.topics.create", topicResource(project, body.name), topicMissing);
      const settings = { displayName: body.display_name ?? null, retryPolicy: body.retry_policy ?? null };
      const given = { projectNo: project.no, name: body.name, fifo: body.fifo ?? false, settings };
      return show(await topics.create(given, keyWithin(call, account)), account);
    },
    async ListTopics(call, { query: { limit = PAGE, marker } }) {
      const { project, place } = await accounts.of(call);
      const list = `topics of ${project.no}`;
      const after = String(readMarker(list, marker) ?? "");
      const found = await topics.all(project.no, ({ name }) =>
        access.allows(call.caller, "notifications.topics.list", topicResource(project, name)),
      );
      // Names are ASCII; a database may order them otherwise.
      const rest = found.filter(({ name }) => name > after).sort((a, b) => (a.name < b.name ? -1 : 1));
      const page = rest.slice(0, limit);
      const last = rest.length > limit ? (page.at(-1)?.name ?? null) : null;
      return { topics: page.map((topic) => wireTopic(topic, place)), meta: pageMeta(list, { total: found.length, limit, last }) };
    },
    async GetTopic(call, { params }) {
      const found = await accounts.topic(call, params.topic, "notifications.topics.get");
      return show(found.topic, found);
    },
    async UpdateTopic(call, { params, body }) {
      const found = await accounts.topic(call, params.topic, "notifications.topics.update");
      const changed = await topics.update(found.topic, {
        ...(body.display_name === undefined ? {} : { displayName: body.display_name }),
        ...(body.retry_policy === undefined ? {} : { retryPolicy: body.retry_policy }),
      });
      return show(changed, found);
    },
    async DeleteTopic(call, { params }) {
      const { topic } = await accounts.topic(call, params.topic, "notifications.topics.delete");
      await topics.delete(topic);
      return undefined;
    },
  };
}
