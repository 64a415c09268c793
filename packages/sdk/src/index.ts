/** `@millrace/sdk`: everything that is public. */
export type { Codec } from "./codec.ts";
export type { ConsumeErrorContext, ConsumeOptions, ConsumeSummary } from "./consume.ts";
export type { ClientCredentials } from "./credentials.ts";
export type { Duration } from "./duration.ts";
export {
  AcknowledgeError,
  ApiError,
  ConfigurationError,
  ConnectionError,
  LeaseLostError,
  MillraceError,
  RequestTimeoutError,
} from "./errors.ts";
export type { MessageHandler, PushHandler } from "./handler.ts";
export type { MessageMeta } from "./meta.ts";
export { Millrace, type MillraceOptions, queue } from "./millrace.ts";
export { type NodeHandler, type NodeRequest, type NodeResponse, toNodeHandler } from "./node-handler.ts";
export { InvalidPayloadError, NonRetryableError, RetryLaterError } from "./outcome.ts";
export type { StandardSchema, Validate } from "./payload.ts";
export type { NackOptions } from "./pull.ts";
export type { Queue, QueueOptions, ReceivedMessage } from "./queue.ts";
export type { QueueInfo, QueueStats, RefusedMessage, ScheduleInfo, SentMessage } from "./records.ts";
export type { Runtime } from "./runtime.ts";
export type { ScheduleOptions } from "./schedule.ts";
export type { BatchMessage, SendOptions } from "./send.ts";
export type { QueueSettings } from "./settings.ts";
export {
  type QueueDelivery,
  type RawBody,
  type Secrets,
  signQueueDelivery,
  verifyNotificationSignature,
  verifyPushSignature,
  verifyQueueSignature,
} from "./signature.ts";
export type { Confirmation, NotificationAttribute, ReceivedNotification } from "./topics/delivery.ts";
export { type NotificationHandlerOptions, notificationHandler, type SecretOf } from "./topics/notification-handler.ts";
export type { BatchNotification, PublishOptions } from "./topics/publish.ts";
export type {
  DeliveryError,
  DeliveryInfo,
  FilterFailure,
  FilterResult,
  NotificationInfo,
  NotificationVerdict,
  PublishedNotification,
  RefusedNotification,
  RetryPolicyInfo,
  TopicInfo,
  TopicSubscriptionInfo,
} from "./topics/records.ts";
export { type SeenNotifications, seenInMemory } from "./topics/seen.ts";
export type { RetryPolicy, TopicSettings, TopicSubscriptionSettings } from "./topics/settings.ts";
export type { Topic, TopicEndpoint, TopicSubscription } from "./topics/topic.ts";
export type { FilterTest, Topics } from "./topics/topics.ts";
