/** Every operation by name: those of the EZGH front door and of identity, and from its own file those of Gigadrive. A server must handle each one: a missing handler does not compile. */
import { z } from "zod";
import { diagnosisOperations } from "./basaltic/diagnosis.ts";
import { basalticOperations } from "./basaltic/operations.ts";
import { publicationOperations } from "./basaltic/publication-operations.ts";
import type { ErrorCode } from "./errors.ts";
import { gigadriveOperations } from "./gigadrive/operations.ts";
import { type Operation, operation } from "./operation.ts";
import type { RouteName } from "./routes.ts";
import * as s from "./shapes.ts";
import { workflowOperations } from "./workflows/operations.ts";

const none = z.undefined();
const nothing = z.strictObject({});
const organization = z.strictObject({ organizationId: s.reference });
const project = organization.extend({ projectId: s.reference });
const queue = project.extend({ queueId: s.reference });
const subscription = project.extend({ subscriptionId: s.reference });
const MiB = 1024 * 1024;

const atOrganization: readonly ErrorCode[] = ["organization_not_found"];
const atProject: readonly ErrorCode[] = [...atOrganization, "project_not_found"];
const atQueue: readonly ErrorCode[] = [...atProject, "queue_not_found"];
const atSubscription: readonly ErrorCode[] = [...atProject, "subscription_not_found"];

export const operations = {
  CreateOrganization: operation({
    summary: "Create an organization.",
    permission: "organizations.create",
    status: 201,
    idempotent: true,
    errors: ["name_taken"],
    params: nothing,
    body: z.strictObject({ name: s.slug }),
    answer: s.organization,
  }),
  ListOrganizations: operation({
    summary: "List the organizations that the key reaches.",
    permission: null,
    params: nothing,
    query: s.paging,
    answer: s.page("organizations", s.organization),
  }),
  GetOrganization: operation({
    summary: "Show an organization.",
    permission: "organizations.get",
    errors: atOrganization,
    params: organization,
    answer: s.organization,
  }),
  DeleteOrganization: operation({
    summary: "Delete an organization that holds no projects.",
    permission: "organizations.delete",
    status: 204,
    errors: [...atOrganization, "not_empty"],
    params: organization,
    answer: none,
  }),
  ListAudit: operation({
    summary: "The management calls of the last 30 days that the key reaches, newest first.",
    permission: "audit.list",
    errors: atOrganization,
    params: organization,
    query: s.paging,
    answer: s.page("calls", s.auditedCall),
  }),
  CreateProject: operation({
    summary: "Create a project, with its `production` environment.",
    permission: "projects.create",
    status: 201,
    idempotent: true,
    errors: [...atOrganization, "name_taken"],
    params: organization,
    body: z.strictObject({ name: s.slug }),
    answer: s.project,
  }),
  ListProjects: operation({
    summary: "List the projects of an organization that the key reaches.",
    permission: null,
    errors: atOrganization,
    params: organization,
    query: s.paging,
    answer: s.page("projects", s.project),
  }),
  GetProject: operation({ summary: "Show a project.", permission: "projects.get", errors: atProject, params: project, answer: s.project }),
  UpdateProject: operation({
    summary: "Change a project's quota: how many messages its clients may send a day (UTC); `null`: any number.",
    permission: "projects.update",
    errors: atProject,
    params: project,
    body: s.updateProject,
    answer: s.project,
  }),
  DeleteProject: operation({
    summary: "Delete a project that holds no queues.",
    permission: "projects.delete",
    status: 204,
    errors: [...atProject, "not_empty"],
    params: project,
    answer: none,
  }),
  CreateKey: operation({
    summary: "Create an API key. Its secret is in this answer only.",
    permission: "keys.create",
    status: 201,
    idempotent: true,
    errors: [...atProject, "environment_not_found"],
    params: project,
    body: s.createKey,
    answer: s.key,
  }),
  ListKeys: operation({
    summary: "List a project's API keys.",
    permission: "keys.list",
    errors: atProject,
    params: project,
    query: s.paging,
    answer: s.page("keys", s.key),
  }),
  GetKey: operation({
    summary: "Show an API key.",
    permission: "keys.get",
    errors: [...atProject, "key_not_found"],
    params: project.extend({ keyId: s.reference }),
    answer: s.key,
  }),
  DeleteKey: operation({
    summary: "Delete an API key. It stops working at once.",
    permission: "keys.delete",
    status: 204,
    errors: [...atProject, "key_not_found"],
    params: project.extend({ keyId: s.reference }),
    answer: none,
  }),

  CreateQueue: operation({
    summary: "Create a queue.",
    permission: "queues.queues.create",
    status: 201,
    idempotent: true,
    errors: [...atProject, "queue_exists", "queue_not_found"],
    params: project,
    body: s.createQueue,
    answer: s.queue,
  }),
  ListQueues: operation({
    summary: "List a project's queues by name.",
    permission: "queues.queues.list",
    errors: atProject,
    params: project,
    query: s.paging,
    answer: s.page("queues", s.queue),
  }),
  GetQueue: operation({ summary: "Show a queue.", permission: "queues.queues.get", errors: atQueue, params: queue, answer: s.queue }),
  UpdateQueue: operation({
    summary: "Change a queue's settings. What is not given stays.",
    permission: "queues.queues.update",
    errors: atQueue,
    params: queue,
    body: s.queueSettings,
    answer: s.queue,
  }),
  DeleteQueue: operation({
    summary: "Delete a queue with its messages and its subscription.",
    permission: "queues.queues.delete",
    status: 204,
    errors: [...atQueue, "queue_in_use"],
    params: queue,
    answer: none,
  }),
  GetQueueStats: operation({
    summary: "Show a queue's depth and counters.",
    permission: "queues.queues.get",
    errors: atQueue,
    params: queue,
    answer: s.queueStats,
  }),
  PurgeQueue: operation({
    summary: "Remove all messages, or only the dead ones.",
    permission: "queues.queues.purge",
    errors: atQueue,
    params: queue,
    body: s.purgeQueue.optional(),
    answer: s.purged,
  }),
  SendMessages: operation({
    summary: "Send 1 to 10 messages, all or nothing. Answered once they are durable.",
    permission: "queues.messages.send",
    idempotent: true,
    bodyLimit: 16 * MiB,
    errors: [...atQueue, "backlog_full", "quota_exceeded"],
    params: queue,
    body: s.sendMessages,
    answer: s.sentMessages,
  }),
  PeekMessages: operation({
    summary: "Look at messages without receiving them.",
    permission: "queues.messages.peek",
    errors: atQueue,
    params: queue,
    query: s.paging.extend({ state: s.messageState.optional() }),
    answer: s.page("messages", s.peekedMessage),
  }),
  ReceiveMessages: operation({
    summary: "Lease up to 10 messages, waiting up to 20 s for the first.",
    permission: "queues.messages.receive",
    errors: atQueue,
    params: queue,
    body: s.receiveMessages.optional(),
    answer: s.receivedMessages,
  }),
  AckMessages: operation({
    summary: "Acknowledge received messages: they are gone for good.",
    permission: "queues.messages.ack",
    errors: atQueue,
    params: queue,
    body: s.ackMessages,
    answer: s.receiptResults,
  }),
  ChangeVisibility: operation({
    summary: "Move the end of leases; 0 seconds makes a message ready now.",
    permission: "queues.messages.ack",
    errors: atQueue,
    params: queue,
    body: s.changeVisibility,
    answer: s.receiptResults,
  }),
  RedriveMessages: operation({
    summary: "Send dead letters back to where they came from, as a job.",
    permission: "queues.messages.redrive",
    status: 201,
    idempotent: true,
    errors: atQueue,
    params: queue,
    body: s.startRedrive.optional(),
    answer: s.redrive,
  }),
  GetRedrive: operation({
    summary: "Watch a redrive.",
    permission: "queues.messages.redrive",
    errors: [...atQueue, "redrive_not_found"],
    params: queue.extend({ redriveId: s.reference }),
    answer: s.redrive,
  }),
  CancelRedrive: operation({
    summary: "Stop a redrive; what was moved stays moved.",
    permission: "queues.messages.redrive",
    errors: [...atQueue, "redrive_not_found"],
    params: queue.extend({ redriveId: s.reference }),
    answer: s.redrive,
  }),

  CreateSubscription: operation({
    summary:
      "Push a queue's messages to an endpoint (its signing secret is in this answer only), or start or resume a workflow's runs with them, which also needs workflows.runs.start or .resume on the workflow.",
    permission: "queues.subscriptions.create",
    status: 201,
    idempotent: true,
    errors: [...atQueue, "subscription_exists", "invalid_target", "app_not_found"],
    params: project,
    body: s.createSubscription,
    answer: s.subscription,
  }),
  ListSubscriptions: operation({
    summary: "List a project's subscriptions.",
    permission: "queues.subscriptions.list",
    errors: atProject,
    params: project,
    query: s.paging.extend({ queueId: s.reference.optional() }),
    answer: s.page("subscriptions", s.subscription),
  }),
  GetSubscription: operation({
    summary: "Show a subscription and how its deliveries go.",
    permission: "queues.subscriptions.get",
    errors: atSubscription,
    params: subscription,
    answer: s.subscription,
  }),
  UpdateSubscription: operation({
    summary: "Change target, batch size or concurrency, from the next delivery on.",
    permission: "queues.subscriptions.update",
    errors: [...atSubscription, "invalid_target", "app_not_found"],
    params: subscription,
    body: s.updateSubscription,
    answer: s.subscription,
  }),
  DeleteSubscription: operation({
    summary: "Stop deliveries; the queue and its messages stay.",
    permission: "queues.subscriptions.delete",
    status: 204,
    errors: atSubscription,
    params: subscription,
    answer: none,
  }),
  PauseSubscription: operation({
    summary: "Start no more deliveries.",
    permission: "queues.subscriptions.pause",
    errors: atSubscription,
    params: subscription,
    answer: s.subscription,
  }),
  ResumeSubscription: operation({
    summary: "Deliver again.",
    permission: "queues.subscriptions.pause",
    errors: atSubscription,
    params: subscription,
    answer: s.subscription,
  }),
  RotateSubscriptionSecret: operation({
    summary: "Make a new signing secret, shown once; both sign for 24 hours.",
    permission: "queues.subscriptions.update",
    idempotent: true,
    errors: [...atSubscription, "not_signed"],
    params: subscription,
    answer: s.subscription,
  }),
  ListAttempts: operation({
    summary: "The last delivery attempts that were kept, newest first.",
    permission: "queues.subscriptions.get",
    errors: atSubscription,
    params: subscription,
    query: s.paging,
    answer: s.attempts,
  }),

  ...gigadriveOperations,
  ...basalticOperations,
  ...diagnosisOperations,
  ...publicationOperations,
  ...workflowOperations,
} satisfies Record<RouteName, Operation>;

export type Operations = typeof operations;
export type OperationName = keyof Operations;
