/** All handlers of the Basaltic door, put together. */
import type { Access } from "../../identity/access.ts";
import type { Directory } from "../../queue/directory.ts";
import type { Explainer } from "../../topic/explain.ts";
import type { Topics } from "../../topic/topic.ts";
import type { TopicSubscriptions } from "../../topic/topic-subscription.ts";
import type { Handlers } from "../handler.ts";
import { createAccounts } from "./account.ts";
import { diagnosisHandlers } from "./diagnosis.ts";
import { topicSubscriptionHandlers } from "./subscriptions.ts";
import { topicHandlers } from "./topics.ts";

type Part = ReturnType<typeof topicHandlers> & ReturnType<typeof topicSubscriptionHandlers> & ReturnType<typeof diagnosisHandlers>;

/** The handlers of topics and their subscriptions. `region` stands in every CRN. */
export function basalticHandlers(deps: {
  access: Access;
  directory: Pick<Directory, "byNo">;
  topics: Topics;
  topicSubscriptions: TopicSubscriptions;
  explainer: Explainer;
  region: string;
}): Pick<Handlers, keyof Part> {
  const { topicSubscriptions: subscriptions } = deps;
  const accounts = createAccounts({ ...deps, subscriptions });
  return {
    ...topicHandlers({ ...deps, accounts }),
    ...topicSubscriptionHandlers({ ...deps, accounts, subscriptions }),
    ...diagnosisHandlers({ ...deps, accounts }),
  };
}
