/** Method and path of every operation of the Basaltic front door; the account is in `X-Account-Id`. Free of any import, as `routes.ts`. */
const topics = "/v1/topics";
const topic = `${topics}/{topic}`;
const subscription = "/v1/subscriptions/{subscriptionId}";

export const basalticRoutes = {
  CreateTopic: { method: "POST", path: topics },
  ListTopics: { method: "GET", path: topics },
  GetTopic: { method: "GET", path: topic },
  UpdateTopic: { method: "PATCH", path: topic },
  DeleteTopic: { method: "DELETE", path: topic },
  CreateTopicSubscription: { method: "POST", path: `${topic}/subscriptions` },
  ListTopicSubscriptions: { method: "GET", path: `${topic}/subscriptions` },
  GetTopicSubscription: { method: "GET", path: subscription },
  UpdateTopicSubscription: { method: "PATCH", path: subscription },
  DeleteTopicSubscription: { method: "DELETE", path: subscription },
  RequestConfirmation: { method: "POST", path: `${subscription}/request_confirmation` },
  GetTopicSubscriptionSecret: { method: "GET", path: `${subscription}/signing_secret` },
  RotateTopicSubscriptionSecret: { method: "POST", path: `${subscription}/signing_secret` },
} as const;

/** Publishing, and what became of it. */
export const publicationRoutes = {
  Publish: { method: "POST", path: `${topic}/publish` },
  PublishBatch: { method: "POST", path: `${topic}/publish_batch` },
  GetNotification: { method: "GET", path: "/v1/notifications/{messageId}" },
  ListDeliveries: { method: "GET", path: `${subscription}/deliveries` },
  GetDelivery: { method: "GET", path: "/v1/deliveries/{deliveryId}" },
  Redeliver: { method: "POST", path: "/v1/deliveries/{deliveryId}/redeliver" },
} as const;

/** Why a notification did or did not arrive. */
export const diagnosisRoutes = {
  ExplainNotification: { method: "GET", path: "/v1/notifications/{messageId}/explanation" },
  TestFilterPolicy: { method: "POST", path: "/v1/filter_policies/test" },
} as const;
