/** The settings of topics and their subscriptions as flags: what is not typed stays as it is. */
import type { Input, Operations } from "@millrace/contract";
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseRate, parseSeconds, parseWhole } from "../durations.ts";

type RetryPolicy = Input<Operations["UpdateTopic"]>["body"]["retry_policy"];
type Settings = Input<Operations["UpdateTopicSubscription"]>["body"];

interface RetryFlags {
  maxAttempts?: number;
  minDelay?: number;
  maxDelay?: number;
  timeout?: number;
  maxAge?: number;
}
interface SettingFlags extends RetryFlags {
  raw?: boolean;
  filter?: Record<string, unknown> | false;
  filterScope?: "attributes" | "message";
  deadLetterQueue?: string | false;
  maxInFlight?: number;
  rateLimit?: { count: number; periodSeconds: number } | false;
}

/** A JSON object. Throws commander's argument error, which names the flag. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("It takes a JSON object, and this is no JSON.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new InvalidArgumentError("It takes a JSON object.");
  return value as Record<string, unknown>;
}

/** The flags of a retry policy. */
export function retryOptions(command: Command): void {
  const duration = (flags: string, text: string) => command.addOption(new Option(flags, text).argParser(parseSeconds));
  command.addOption(new Option("--max-attempts <number>", "attempts before a delivery has failed, 1 to 100").argParser(parseWhole));
  duration("--min-delay <duration>", "the wait after a first failure");
  duration("--max-delay <duration>", "the longest wait after a failure");
  duration("--timeout <duration>", "how long one attempt may take, 1s to 60s");
  duration("--max-age <duration>", "how long a notification is worth delivering");
}

/** The retry policy that was typed; `undefined` when none was. */
export function retryPolicyOf(flags: RetryFlags): RetryPolicy {
  const policy = {
    max_attempts: flags.maxAttempts,
    min_delay_seconds: flags.minDelay,
    max_delay_seconds: flags.maxDelay,
    timeout_seconds: flags.timeout,
    max_age_seconds: flags.maxAge,
  };
  return Object.values(policy).every((value) => value === undefined) ? undefined : policy;
}

/** The flags of a subscription. */
export function subscriptionOptions(command: Command): void {
  command.option("--raw", "deliver the message alone, without the envelope around it");
  command.option("--no-raw", "deliver the envelope");
  command.addOption(new Option("--filter <json>", "which notifications it gets, as a filter policy").argParser(parseObject));
  command.option("--no-filter", "all of them");
  command.addOption(new Option("--filter-scope <scope>", "what the filter looks at").choices(["attributes", "message"]));
  command.option("--dead-letter-queue <queue>", "a queue that gets what could not be delivered");
  command.option("--no-dead-letter-queue", "none");
  command.addOption(new Option("--max-in-flight <number>", "deliveries at the same time, 1 to 100").argParser(parseWhole));
  command.addOption(new Option("--rate-limit <rate>", "deliveries per period, such as 100/s").argParser(parseRate));
  command.option("--no-rate-limit", "no limit");
  retryOptions(command);
}

/** The settings that were typed. Commander sets the default of a `--no-` flag to true, which counts for nothing. */
export function subscriptionSettingsOf(command: Command): Settings {
  const typed = Object.fromEntries(
    Object.entries(command.opts<SettingFlags>()).filter(([name]) => command.getOptionValueSource(name) === "cli"),
  ) as SettingFlags;
  const { filter, deadLetterQueue, rateLimit } = typed;
  return {
    raw_message_delivery: typed.raw,
    filter_policy: filter === false ? null : filter,
    filter_policy_scope: typed.filterScope,
    retry_policy: retryPolicyOf(typed),
    redrive_policy: deadLetterQueue === undefined ? undefined : deadLetterQueue === false ? null : { dead_letter_queue: deadLetterQueue },
    max_in_flight: typed.maxInFlight,
    rate_limit: rateLimit ? { count: rateLimit.count, period_seconds: rateLimit.periodSeconds } : rateLimit === false ? null : undefined,
  };
}
