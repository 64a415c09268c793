/**
 * Topics and their subscriptions as the store answers them, and how they are read from rows. Settings are one JSON text each; what a
 * publication must find by SQL has columns of its own.
 */
import type { basalticShapes } from "@millrace/contract";
import type { z } from "zod";
import type { Row, Value } from "../db/db.ts";

/** A retry policy as it was given (T11): what is absent is inherited. */
export type RetryPolicy = z.output<typeof basalticShapes.retryPolicy>;

/** What a topic's owner chooses. */
export interface TopicSettings {
  displayName: string | null;
  retryPolicy: RetryPolicy | null;
}

/** A topic. Times in milliseconds since 1970. */
export interface TopicRow {
  no: number;
  id: string;
  projectNo: number;
  name: string;
  fifo: boolean;
  settings: TopicSettings;
  /** Rises with every change of who receives, or of what they filter. */
  version: number;
  /** Confirmed subscriptions, and all of them. */
  members: number;
  subscriptions: number;
  createdAt: number;
  updatedAt: number;
}

/** What a subscription's owner chooses. A filter is a checked policy (T10), `null` lets everything pass. */
export interface TopicSubscriptionSettings {
  rawMessageDelivery: boolean;
  filterPolicy: Record<string, unknown> | null;
  filterPolicyScope: "attributes" | "message";
  retryPolicy: RetryPolicy | null;
  /** The number of the queue that failures go to (T13); it may be gone. */
  deadLetterNo: number | null;
  /** T15. */
  maxInFlight: number;
  rateLimit: { count: number; periodMs: number } | null;
}

/** The last failure of a subscription; `at` in milliseconds since 1970. */
export interface TopicSubscriptionError {
  at: number;
  class: string;
  status?: number;
  message: string;
}

/** A topic subscription without its secret. Times in milliseconds since 1970. */
export interface TopicSubscriptionRow {
  no: number;
  id: string;
  topicNo: number;
  projectNo: number;
  protocol: "webhook" | "queue";
  /** The URL exactly as given, or the queue's id. */
  endpoint: string;
  /** The number of the queue that is subscribed; `null` for a webhook. */
  targetNo: number | null;
  /** The number of its internal queue, where its deliveries wait. */
  queueNo: number;
  state: "pending" | "confirmed";
  settings: TopicSubscriptionSettings;
  /** Until when the handshake that was sent last can be answered. */
  confirmableUntil: number | null;
  confirmedAt: number | null;
  /** Its last deliveries failed. */
  failing: boolean;
  lastError: TopicSubscriptionError | null;
  lastSuccessAt: number | null;
  createdAt: number;
  updatedAt: number;
}

/** The columns that `topicOf` reads. */
export const TOPIC_COLUMNS = "no, id, project_no, name, fifo, settings, version, members, subscriptions, created_at, updated_at";

/** The columns that `topicSubscriptionOf` reads. */
export const TOPIC_SUBSCRIPTION_COLUMNS =
  "no, id, topic_no, project_no, protocol, endpoint, target_no, queue_no, state, settings, confirmable_until, confirmed_at, failing, last_error, last_success_at, created_at, updated_at";

const orNull = (value: Value | undefined): number | null => (value === null || value === undefined ? null : Number(value));

/** A topic of a row with `TOPIC_COLUMNS`. */
export function topicOf(row: Row): TopicRow {
  return {
    no: Number(row.no),
    id: String(row.id),
    projectNo: Number(row.project_no),
    name: String(row.name),
    fifo: Number(row.fifo) === 1,
    settings: JSON.parse(String(row.settings)) as TopicSettings,
    version: Number(row.version),
    members: Number(row.members),
    subscriptions: Number(row.subscriptions),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

/** A subscription of a row with `TOPIC_SUBSCRIPTION_COLUMNS`. */
export function topicSubscriptionOf(row: Row): TopicSubscriptionRow {
  return {
    no: Number(row.no),
    id: String(row.id),
    topicNo: Number(row.topic_no),
    projectNo: Number(row.project_no),
    protocol: row.protocol === "queue" ? "queue" : "webhook",
    endpoint: String(row.endpoint),
    targetNo: orNull(row.target_no),
    queueNo: Number(row.queue_no),
    state: row.state === "confirmed" ? "confirmed" : "pending",
    settings: JSON.parse(String(row.settings)) as TopicSubscriptionSettings,
    confirmableUntil: orNull(row.confirmable_until),
    confirmedAt: orNull(row.confirmed_at),
    failing: Number(row.failing) === 1,
    lastError: row.last_error === null ? null : (JSON.parse(String(row.last_error)) as TopicSubscriptionError),
    lastSuccessAt: orNull(row.last_success_at),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}
