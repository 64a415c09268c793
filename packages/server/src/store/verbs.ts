/** Every cold verb of the store by name. A verb is `(tx, ...args) => result`, is one transaction, and its name is the change it makes. */
import { appVerbs } from "./app.ts";
import { auditVerbs } from "./audit.ts";
import { clusterVerbs } from "./cluster.ts";
import { completeRunsVerbs } from "./complete-runs.ts";
import { consumerVerbs } from "./consumer.ts";
import { deliveryVerbs } from "./delivery.ts";
import { deliveryRecordVerbs } from "./delivery-record.ts";
import { deploymentVerbs } from "./deployment.ts";
import { environmentVerbs } from "./environment.ts";
import { executionVerbs } from "./execution.ts";
import { explanationVerbs } from "./explanation.ts";
import { fanOutVerbs } from "./fan-out.ts";
import { identityVerbs } from "./identity.ts";
import { joinedDatabaseVerbs } from "./joined-database.ts";
import { laneChangeVerbs } from "./lane-change.ts";
import { lookVerbs } from "./look.ts";
import { membershipVerbs } from "./membership.ts";
import { messageVerbs } from "./message.ts";
import { notificationVerbs } from "./notification.ts";
import { placedQueueVerbs } from "./placed-queue.ts";
import { placedResultVerbs } from "./placed-result.ts";
import { queueVerbs } from "./queue.ts";
import { quotaVerbs } from "./quota.ts";
import { recordEndedVerbs } from "./record-ended.ts";
import { redriveVerbs } from "./redrive.ts";
import { reportVerbs } from "./report.ts";
import { resumeVerbs } from "./resume.ts";
import { runVerbs } from "./run.ts";
import { runControlVerbs } from "./run-control.ts";
import { runListVerbs } from "./run-list.ts";
import { runRemovalVerbs } from "./run-removal.ts";
import { runResultVerbs } from "./run-result.ts";
import { scheduleVerbs } from "./schedule.ts";
import { startVerbs } from "./start.ts";
import { subscriptionVerbs } from "./subscription.ts";
import { topicVerbs } from "./topic.ts";
import { topicEndingVerbs } from "./topic-ending.ts";
import { topicLaneVerbs } from "./topic-lane.ts";
import { topicSubscriptionVerbs } from "./topic-subscription.ts";
import { waitVerbs } from "./wait.ts";
import { workflowVerbs } from "./workflow.ts";

export const coldVerbs = {
  ...identityVerbs,
  ...quotaVerbs,
  ...environmentVerbs,
  ...deploymentVerbs,
  ...queueVerbs,
  ...placedQueueVerbs,
  ...joinedDatabaseVerbs,
  ...messageVerbs,
  ...redriveVerbs,
  ...subscriptionVerbs,
  ...consumerVerbs,
  ...scheduleVerbs,
  ...topicVerbs,
  ...topicSubscriptionVerbs,
  ...topicEndingVerbs,
  ...membershipVerbs,
  ...notificationVerbs,
  ...fanOutVerbs,
  ...topicLaneVerbs,
  ...deliveryVerbs,
  ...deliveryRecordVerbs,
  ...explanationVerbs,
  ...clusterVerbs,
  ...auditVerbs,
  ...laneChangeVerbs,
  ...appVerbs,
  ...workflowVerbs,
  ...runVerbs,
  ...runListVerbs,
  ...runControlVerbs,
  ...runRemovalVerbs,
  ...runResultVerbs,
  ...placedResultVerbs,
  ...waitVerbs,
  ...startVerbs,
  ...resumeVerbs,
  ...executionVerbs,
  ...recordEndedVerbs,
  ...completeRunsVerbs,
  ...reportVerbs,
  ...lookVerbs,
};
export type ColdVerbs = typeof coldVerbs;
