/** A queue's schedules: when, and what is sent. */
import { bodyBytes, type Codec, encodePayload } from "./codec.ts";

/** When a schedule runs and what it sends. */
export interface ScheduleOptions<T> {
  /** Five fields (`"0 7 * * 1-5"`), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  cron: string;
  /** An IANA name such as `Europe/Berlin`; UTC unless given. */
  timezone?: string;
  /** What each run sends; an empty text unless given. */
  payload?: T;
  headers?: Record<string, string>;
  /** `false` keeps the schedule without running it. */
  enabled?: boolean;
}

/** A schedule in the wire's fields. Throws a `TypeError` for bytes that are not text: a schedule's body is text. */
export function wireSchedule<T>({ payload, ...same }: ScheduleOptions<T>, codec: Codec<T> | undefined): Record<string, unknown> {
  if (payload === undefined) return { ...same };
  const { body, encoding, contentType } = encodePayload(payload, codec);
  if (encoding === "utf8") return { ...same, body, contentType };
  try {
    return { ...same, body: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bodyBytes(body, encoding)), contentType };
  } catch {
    throw new TypeError("payload: the body of a schedule must be text");
  }
}
