import { basalticRoutes, diagnosisRoutes, publicationRoutes } from "./basaltic/routes.ts";
import { gigadriveRoutes } from "./gigadrive/routes.ts";
import { workflowRoutes } from "./workflows/routes.ts";

/** Method and path of every operation, free of any library so that small clients can carry it. `{name}` is a path parameter. */
const project = "/v1/organizations/{organizationId}/projects/{projectId}";
const queue = `${project}/queues/{queueId}`;
const subscription = `${project}/subscriptions/{subscriptionId}`;

/** The routes of the Basaltic door, whose calls name their project in `X-Account-Id`. */
export const accountRoutes = { ...basalticRoutes, ...publicationRoutes, ...diagnosisRoutes } as const;

export const routes = {
  CreateOrganization: { method: "POST", path: "/v1/organizations" },
  ListOrganizations: { method: "GET", path: "/v1/organizations" },
  GetOrganization: { method: "GET", path: "/v1/organizations/{organizationId}" },
  DeleteOrganization: { method: "DELETE", path: "/v1/organizations/{organizationId}" },
  ListAudit: { method: "GET", path: "/v1/organizations/{organizationId}/audit" },
  CreateProject: { method: "POST", path: "/v1/organizations/{organizationId}/projects" },
  ListProjects: { method: "GET", path: "/v1/organizations/{organizationId}/projects" },
  GetProject: { method: "GET", path: project },
  UpdateProject: { method: "PATCH", path: project },
  DeleteProject: { method: "DELETE", path: project },
  CreateKey: { method: "POST", path: `${project}/keys` },
  ListKeys: { method: "GET", path: `${project}/keys` },
  GetKey: { method: "GET", path: `${project}/keys/{keyId}` },
  DeleteKey: { method: "DELETE", path: `${project}/keys/{keyId}` },
  CreateQueue: { method: "POST", path: `${project}/queues` },
  ListQueues: { method: "GET", path: `${project}/queues` },
  GetQueue: { method: "GET", path: queue },
  UpdateQueue: { method: "PATCH", path: queue },
  DeleteQueue: { method: "DELETE", path: queue },
  GetQueueStats: { method: "GET", path: `${queue}/stats` },
  PurgeQueue: { method: "POST", path: `${queue}/purge` },
  SendMessages: { method: "POST", path: `${queue}/messages` },
  PeekMessages: { method: "GET", path: `${queue}/messages` },
  ReceiveMessages: { method: "POST", path: `${queue}/messages/receive` },
  AckMessages: { method: "POST", path: `${queue}/messages/ack` },
  ChangeVisibility: { method: "POST", path: `${queue}/messages/visibility` },
  RedriveMessages: { method: "POST", path: `${queue}/redrives` },
  GetRedrive: { method: "GET", path: `${queue}/redrives/{redriveId}` },
  CancelRedrive: { method: "POST", path: `${queue}/redrives/{redriveId}/cancel` },
  CreateSubscription: { method: "POST", path: `${project}/subscriptions` },
  ListSubscriptions: { method: "GET", path: `${project}/subscriptions` },
  GetSubscription: { method: "GET", path: subscription },
  UpdateSubscription: { method: "PATCH", path: subscription },
  DeleteSubscription: { method: "DELETE", path: subscription },
  PauseSubscription: { method: "POST", path: `${subscription}/pause` },
  ResumeSubscription: { method: "POST", path: `${subscription}/resume` },
  RotateSubscriptionSecret: { method: "POST", path: `${subscription}/rotate-secret` },
  ListAttempts: { method: "GET", path: `${subscription}/attempts` },
  ...gigadriveRoutes,
  ...accountRoutes,
  ...workflowRoutes,
} as const;

export type RouteName = keyof typeof routes;
