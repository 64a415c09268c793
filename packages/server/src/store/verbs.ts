/** Every cold verb of the store by name. A verb is `(tx, ...args) => result`, is one transaction, and its name is the change it makes. */
import { consumerVerbs } from "./consumer.ts";
import { deploymentVerbs } from "./deployment.ts";
import { environmentVerbs } from "./environment.ts";
import { identityVerbs } from "./identity.ts";
import { messageVerbs } from "./message.ts";
import { queueVerbs } from "./queue.ts";
import { redriveVerbs } from "./redrive.ts";
import { scheduleVerbs } from "./schedule.ts";
import { subscriptionVerbs } from "./subscription.ts";

export const coldVerbs = {
  ...identityVerbs,
  ...environmentVerbs,
  ...deploymentVerbs,
  ...queueVerbs,
  ...messageVerbs,
  ...redriveVerbs,
  ...subscriptionVerbs,
  ...consumerVerbs,
  ...scheduleVerbs,
};
export type ColdVerbs = typeof coldVerbs;
