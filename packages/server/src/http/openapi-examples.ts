/** What the reference shows: one plausible body and answer per operation. A test holds each against its shape. */
import type { OperationName } from "@millrace/contract";
import { basalticAnswers, basalticBodies } from "./openapi-basaltic.ts";
import { gigadriveAnswers, gigadriveBodies } from "./openapi-gigadrive.ts";
import { workflowAnswers, workflowBodies } from "./openapi-workflows.ts";

const at = "2026-10-13T18:00:00.000Z";
const queueId = "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8";
const messageId = "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
const receipt = "AZmfUBorfD2OT1prfI2eDw";

const organization = { id: "01999f3a-0000-7000-8000-000000000001", name: "acme", createdAt: at };
const project = {
  id: "01999f3a-0000-7000-8000-000000000002",
  organizationId: organization.id,
  name: "shop",
  maxMessagesPerDay: 100_000,
  messagesToday: 1_042,
  createdAt: at,
};
const statements = [{ allow: ["queues.messages.*"], on: ["acme/shop/queues/orders"] }];
const key = {
  id: "01999f3a-0000-7000-8000-000000000003",
  name: "worker",
  environment: null,
  statements,
  expiresAt: null,
  lastUsedAt: at,
  createdAt: at,
  secret: null,
};
const queue = {
  id: queueId,
  resourceName: "que_8k2m4n6p9q1r",
  name: "orders",
  type: "standard",
  visibilityTimeoutSeconds: 60,
  retentionSeconds: 345_600,
  delaySeconds: 0,
  redrivePolicy: null,
  deadLetter: null,
  maxAttempts: null,
  retryBackoffMinSeconds: null,
  retryBackoffMaxSeconds: null,
  deduplicationWindowSeconds: 300,
  contentBasedDeduplication: false,
  rateLimit: null,
  groups: { concurrency: 1 },
  maxBytes: null,
  paused: false,
  source: "api",
  database: "default",
  createdAt: at,
  updatedAt: at,
};
const message = {
  messageId,
  body: '{"orderId":1042}',
  attributes: { source: "web" },
  sentAt: at,
  receiveCount: 1,
};
const redrive = {
  id: "01999f3a-0000-7000-8000-000000000004",
  queueId,
  state: "running",
  selected: 120,
  moved: 40,
  remaining: 80,
  failed: 0,
  lastError: null,
  createdAt: at,
  updatedAt: at,
};
const target = { kind: "https", url: "https://shop.example.com/hooks/orders", timeoutSeconds: 30 };
const subscription = {
  id: "01999f3a-0000-7000-8000-000000000005",
  resourceName: "qsb_3f5g7h9j1k2l",
  queueId,
  target,
  batchSize: 10,
  maxConcurrency: 5,
  state: "active",
  recordAttempts: false,
  status: { health: "healthy", lastError: null, lastSuccessAt: at, inFlight: 1, limit: 5, deliveriesPerMinute: 42 },
  signingSecret: null,
  createdAt: at,
  updatedAt: at,
};
const withSecret = { ...subscription, signingSecret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq" };
const results = { results: [{ receipt, ok: true }] };

/** By operation; operations without a body have none. */
export const bodyExamples: Partial<Record<OperationName, unknown>> = {
  CreateOrganization: { name: "acme" },
  CreateProject: { name: "shop" },
  UpdateProject: { maxMessagesPerDay: 100_000 },
  CreateKey: { name: "worker", statements },
  CreateQueue: { name: "orders", visibilityTimeoutSeconds: 60 },
  UpdateQueue: { visibilityTimeoutSeconds: 120, paused: false },
  PurgeQueue: { scope: "dead" },
  SendMessages: { messages: [{ body: '{"orderId":1042}', attributes: { source: "web" } }] },
  ReceiveMessages: { maxMessages: 10, waitSeconds: 20 },
  AckMessages: { receipts: [receipt] },
  ChangeVisibility: { receipts: [{ receipt, visibilityTimeoutSeconds: 300 }] },
  RedriveMessages: { ratePerSecond: 100 },
  CreateSubscription: { queueId: "orders", target, batchSize: 10, maxConcurrency: 5 },
  UpdateSubscription: { maxConcurrency: 10 },
  ...gigadriveBodies,
  ...workflowBodies,
  ...basalticBodies,
};

/** By operation; those that answer 204 have none. */
export const answerExamples: Partial<Record<OperationName, unknown>> = {
  CreateOrganization: organization,
  ListOrganizations: { organizations: [organization], nextCursor: null },
  GetOrganization: organization,
  CreateProject: project,
  ListProjects: { projects: [project], nextCursor: null },
  GetProject: project,
  UpdateProject: project,
  ListAudit: {
    calls: [
      {
        at,
        key: { id: key.id, name: key.name },
        operation: "DeleteQueue",
        project: "shop",
        path: "/v1/organizations/acme/projects/shop/queues/orders",
        address: "203.0.113.7",
        status: 409,
        code: "queue_in_use",
        requestId: "req_7f3a9c2e",
      },
    ],
    nextCursor: null,
  },
  CreateKey: { ...key, lastUsedAt: null, secret: `mlr_${"0".repeat(49)}` },
  ListKeys: { keys: [key], nextCursor: null },
  GetKey: key,
  CreateQueue: queue,
  ListQueues: { queues: [queue], nextCursor: null },
  GetQueue: queue,
  UpdateQueue: queue,
  GetQueueStats: {
    ready: 12,
    scheduled: 3,
    waiting: 0,
    inflight: 5,
    dead: 1,
    bytes: 20_480,
    sent: 1_000,
    acknowledged: 979,
    failed: 7,
    deadLettered: 1,
    expired: 0,
    oldestReadyAt: at,
    nextScheduledAt: at,
  },
  PurgeQueue: { purgedMessages: 12 },
  SendMessages: { messages: [{ messageId }] },
  PeekMessages: {
    messages: [
      {
        ...message,
        state: "ready",
        contentType: null,
        dedupId: null,
        attempts: 0,
        sizeBytes: 25,
        deliverAt: at,
        expiresAt: at,
        leaseExpiresAt: null,
        lastDeliveredAt: null,
        lastError: null,
        deadAt: null,
        deadLetterSourceQueueId: null,
      },
    ],
    nextCursor: null,
  },
  ReceiveMessages: { messages: [{ ...message, receipt, leaseExpiresAt: at }] },
  AckMessages: results,
  ChangeVisibility: results,
  RedriveMessages: redrive,
  GetRedrive: redrive,
  CancelRedrive: { ...redrive, state: "cancelled" },
  CreateSubscription: withSecret,
  ListSubscriptions: { subscriptions: [subscription], nextCursor: null },
  GetSubscription: subscription,
  UpdateSubscription: subscription,
  PauseSubscription: { ...subscription, state: "paused" },
  ResumeSubscription: subscription,
  RotateSubscriptionSecret: withSecret,
  ListAttempts: {
    attempts: [
      {
        deliveryId: "01999f3a-0000-7000-8000-000000000006",
        at,
        durationMs: 23,
        outcome: "failed",
        class: "http",
        status: 503,
        message: "the endpoint answered 503",
        messageIds: [messageId],
        answer: "try again later",
      },
    ],
    nextCursor: null,
  },
  ...gigadriveAnswers,
  ...workflowAnswers,
  ...basalticAnswers,
};
