/** Examples of the Gigadrive door's operations: one plausible body and answer each. A test holds each against its shape. */
import type { OperationName } from "@millrace/contract";

const at = "2026-10-13T18:00:00.000Z";
const id = "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
const receipt = "AZmfUBorfD2OT1prfI2eDw";
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";

const queue = {
  id: "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8",
  resourceName: "que_8k2m4n6p9q1r",
  name: "emails",
  environment: "production",
  type: "standard",
  mode: "push",
  consumerPath: "/api/queues/emails",
  visibilityTimeoutSeconds: 120,
  retentionSeconds: 345_600,
  delaySeconds: 0,
  maxAttempts: 5,
  deadLetter: true,
  retryBackoffMinSeconds: 5,
  retryBackoffMaxSeconds: 900,
  deduplicationWindowSeconds: 86_400,
  contentBasedDeduplication: false,
  concurrency: 100,
  rateLimit: { count: 50, periodSeconds: 1 },
  maxBytes: null,
  paused: false,
  source: "api",
  createdAt: at,
  updatedAt: at,
  stats: {
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
    oldestReadyAt: at,
    nextScheduledAt: at,
  },
};
const record = {
  id,
  state: "ready",
  body: '{"to":"ada@example.com"}',
  encoding: "utf8",
  bodyTruncated: false,
  contentType: "application/json",
  headers: { "x-tenant": "acme" },
  attempts: 0,
  sizeBytes: 36,
  groupKey: null,
  deduplicationKey: "welcome-1042",
  deploymentId: null,
  source: "api",
  lastError: null,
  createdAt: at,
  deliverAt: at,
  expiresAt: at,
  leaseExpiresAt: null,
  lastDeliveredAt: null,
  deadAt: null,
  receipt: null,
};
const leased = { ...record, state: "inflight", attempts: 1, leaseExpiresAt: at, lastDeliveredAt: at, receipt };
const sent = { messageId: id, deduplicated: false, deliverAt: at };
const deployment = {
  id: "dpl_7f3a",
  environment: "production",
  url: "https://shop-7f3a.example.com",
  state: "current",
  promotedAt: at,
  createdAt: at,
  updatedAt: at,
};
const environment = { id: "01999f3a-0000-7000-8000-000000000007", slug: "staging", createdAt: at };
const rotated = { secret, next: { secret: "whsec_QkKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo", activatesAt: at } };

/** By operation; operations without a body have none. */
export const gigadriveBodies: Partial<Record<OperationName, unknown>> = {
  GigadriveCreateQueue: { name: "emails", consumerPath: "/api/queues/emails", maxAttempts: 5, visibilityTimeoutSeconds: 120 },
  GigadrivePutQueue: { consumerPath: "/api/queues/emails", rateLimit: { count: 50, periodSeconds: 1 } },
  GigadriveUpdateQueue: { visibilityTimeoutSeconds: 120 },
  GigadrivePauseQueue: { environment: "production" },
  GigadriveResumeQueue: { environment: "production" },
  GigadrivePurgeQueue: { scope: "dead" },
  GigadriveRedrive: { messageIds: [id] },
  GigadriveSend: { json: { to: "ada@example.com" }, headers: { "x-tenant": "acme" }, deduplicationKey: "welcome-1042" },
  GigadriveReceive: { maxMessages: 10, waitSeconds: 20 },
  GigadriveAckMessages: { messages: [{ messageId: id, receipt }] },
  GigadriveAckMessage: { receipt },
  GigadriveNackMessage: { receipt, delaySeconds: 60, error: "the mailer is throttled" },
  GigadriveExtendMessage: { receipt, visibilityTimeoutSeconds: 300 },
  PutDeployment: { url: deployment.url, environment: "production" },
  PromoteDeployment: {},
  CreateEnvironment: { slug: "staging" },
  RotateSigningSecret: {},
  ActivateSigningSecret: {},
};

/** By operation. */
export const gigadriveAnswers: Partial<Record<OperationName, unknown>> = {
  GigadriveListQueues: { items: [queue], total: 1 },
  GigadriveCreateQueue: queue,
  GigadrivePutQueue: { ...queue, created: true },
  GigadriveGetQueue: queue,
  GigadriveUpdateQueue: queue,
  GigadriveDeleteQueue: { purgedMessages: 12 },
  GigadrivePauseQueue: { ...queue, paused: true },
  GigadriveResumeQueue: queue,
  GigadrivePurgeQueue: { purgedMessages: 12 },
  GigadriveRedrive: { redrivenMessages: 3 },
  GigadriveSend: sent,
  GigadriveListMessages: { items: [record], total: 1 },
  GigadriveReceive: { messages: [leased] },
  GigadriveAckMessages: { results: [{ messageId: id, acknowledged: true }] },
  GigadriveGetMessage: record,
  GigadriveDeleteMessage: { deleted: true },
  GigadriveAckMessage: { messageId: id, acknowledged: true },
  GigadriveNackMessage: { status: "retrying", deliverAt: at },
  GigadriveExtendMessage: { leaseExpiresAt: at },
  ListDeployments: { items: [deployment], total: 1 },
  PutDeployment: { ...deployment, state: "registered", promotedAt: null },
  GetDeployment: deployment,
  PromoteDeployment: deployment,
  RetireDeployment: { ...deployment, state: "retired" },
  ListEnvironments: { items: [environment], total: 1 },
  CreateEnvironment: environment,
  GetEnvironment: environment,
  GetSigningSecret: { secret, next: null },
  RotateSigningSecret: rotated,
  ActivateSigningSecret: { secret: rotated.next.secret, next: null },
};
