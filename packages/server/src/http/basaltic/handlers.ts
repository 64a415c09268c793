/** All handlers of the Basaltic door, put together. */
import type { Access } from "../../identity/access.ts";
import type { Directory } from "../../queue/directory.ts";
import type { DeliveryRecords } from "../../topic/deliveries.ts";
import type { Explainer } from "../../topic/explain.ts";
import type { Publications } from "../../topic/publications.ts";
import type { Topics } from "../../topic/topic.ts";
import type { TopicSubscriptions } from "../../topic/topic-subscription.ts";
import type { Handlers } from "../handler.ts";
import { createAccounts } from "./account.ts";
import { diagnosisHandlers } from "./diagnosis.ts";
import { publicationHandlers } from "./publications.ts";
import { topicSubscriptionHandlers } from "./subscriptions.ts";
import { topicHandlers } from "./topics.ts";

type Part = ReturnType<typeof topicHandlers> &
  ReturnType<typeof topicSubscriptionHandlers> &
  ReturnType<typeof publicationHandlers> &
  ReturnType<typeof diagnosisHandlers>;

/** The handlers of topics, their subscriptions, publications and deliveries. `region` stands in every CRN. */
export function basalticHandlers(deps: {
  access: Access;
  directory: Pick<Directory, "byNo">;
  topics: Topics;
  topicSubscriptions: TopicSubscriptions;
  publications: Publications;
  deliveries: DeliveryRecords;
  explainer: Explainer;
  region: string;
}): Pick<Handlers, keyof Part> {
  const { topicSubscriptions: subscriptions } = deps;
  const accounts = createAccounts({ ...deps, subscriptions });
  return {
    ...topicHandlers({ ...deps, accounts }),
    ...topicSubscriptionHandlers({ ...deps, accounts, subscriptions }),
    ...publicationHandlers({ ...deps, accounts }),
    ...diagnosisHandlers({ ...deps, accounts }),
  };
}
