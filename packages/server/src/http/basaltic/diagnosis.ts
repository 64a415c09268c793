/** Handlers of explanations and of the filter tester (T10, T16): look up and authorize, then the topic's diagnosis. */
import { Fault } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import { subscriptionReference } from "../../topic/crn.ts";
import type { Explainer } from "../../topic/explain.ts";
import { compileFilter, documentOf } from "../../topic/filter/filter.ts";
import { wireNotification, wireVerdict } from "../../topic/record-wire.ts";
import type { Handlers } from "../handler.ts";
import { type Accounts, topicResource } from "./account.ts";
import { PAGE, pageMeta, readMarker } from "./marker.ts";

const missing = (): Fault => new Fault("notification_not_found", "there is no such notification, or the key does not reach it");

/** The handlers of the diagnosis. */
export function diagnosisHandlers(deps: {
  access: Access;
  accounts: Accounts;
  explainer: Explainer;
}): Pick<Handlers, "ExplainNotification" | "TestFilterPolicy"> {
  const { access, accounts, explainer } = deps;
  return {
    async ExplainNotification(call, { params, query: { limit = PAGE, marker, subscription_id: reference } }) {
      const { project, place } = await accounts.of(call);
      // A CRN that leads elsewhere names none of the topic's subscriptions.
      const subscriptionId = reference === undefined ? null : (subscriptionReference(reference, place) ?? "").toLowerCase();
      const list = `verdicts on ${params.messageId}`;
      const after = Number(readMarker(list, marker) ?? 0);
      const found = await explainer.explain(project.no, params.messageId, { after, limit, subscriptionId });
      if (found === null) throw missing();
      const { state, topic, next } = found.explanation;
      access.demand(call.caller, "notifications.messages.explain", topicResource(project, topic.name), missing);
      if (reference !== undefined && found.verdicts.length === 0)
        throw new Fault("subscription_not_found", "the notification's topic has no such subscription");
      return {
        notification: wireNotification(state, topic.name, place),
        verdicts: found.verdicts.map(wireVerdict),
        meta: pageMeta(list, { total: reference === undefined ? topic.subscriptions : found.verdicts.length, limit, last: next }),
      };
    },
    async TestFilterPolicy(call, { body }) {
      await accounts.of(call);
      const filter = compileFilter(body.filter_policy, body.filter_policy_scope ?? "attributes");
      return { result: filter.explain(documentOf({ attributes: body.attributes ?? null, message: body.message ?? "" })) };
    },
  };
}
