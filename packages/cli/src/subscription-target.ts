/** Where a subscription's messages go, as flags and as fields: an endpoint, or a workflow whose runs they start or resume. */
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { parseSeconds, parseWhole, showSeconds } from "./durations.ts";
import { CliError, exitCode } from "./exit.ts";

type Subscription = Answer<Operations["GetSubscription"]>;
type Target = Input<Operations["CreateSubscription"]>["body"]["target"];

/** What is said of an endpoint and its deliveries. */
export interface EndpointFlags {
  url?: string;
  timeout?: number;
  batchSize?: number;
  concurrency?: number;
  recordAttempts?: boolean;
}

export function endpointOptions(command: Command): void {
  command
    .option("--url <url>", "the endpoint that messages are posted to")
    .addOption(new Option("--timeout <duration>", "how long a delivery may take, 1s to 60s").argParser(parseSeconds))
    .addOption(new Option("--batch-size <number>", "messages per delivery at most, 1 to 10").argParser(parseWhole))
    .addOption(new Option("--concurrency <number>", "deliveries in flight at once, 1 to 100").argParser(parseWhole))
    .option("--record-attempts", "keep successful attempts for inspection too");
}

/** What is said of a workflow instead. */
export interface WorkflowFlags {
  workflowApp?: string;
  workflow?: string;
  mode?: "start" | "resume";
  correlationAttribute?: string;
  keepUnmatched?: number;
}

export function workflowOptions(command: Command): void {
  command
    .option("--workflow-app <app>", "instead of an endpoint: the app of a workflow")
    .option("--workflow <name>", "the workflow")
    .addOption(new Option("--mode <mode>", "start a run for each message, or resume runs that wait for it").choices(["start", "resume"]))
    .option("--correlation-attribute <name>", "with --mode resume: the attribute whose value is the key that runs wait on")
    .addOption(
      new Option("--keep-unmatched <duration>", "with --mode resume: keep messages that nobody waits for, up to 7d").argParser(
        parseSeconds,
      ),
    );
}

/** The target that the flags name. Throws a usage error for what is missing or does not fit together. */
export function targetOf(flags: EndpointFlags & WorkflowFlags): Target {
  const { url, workflowApp: appId, workflow, mode = "start", correlationAttribute, keepUnmatched } = flags;
  if (appId === undefined) {
    if (url !== undefined) return { kind: "https", url, timeoutSeconds: flags.timeout };
    throw new CliError(
      exitCode.usage,
      "A subscription needs an endpoint or a workflow.",
      "Give --url URL, or --workflow-app APP --workflow NAME.",
    );
  }
  if (url !== undefined) throw new CliError(exitCode.usage, "Give either --url or --workflow-app, not both.");
  if (workflow === undefined) throw new CliError(exitCode.usage, "Which workflow of the app?", "Give --workflow NAME.");
  if (mode === "start") {
    if (correlationAttribute === undefined && keepUnmatched === undefined) return { kind: "workflow", mode, appId, workflow };
    throw new CliError(exitCode.usage, "--correlation-attribute and --keep-unmatched are for --mode resume.");
  }
  if (correlationAttribute === undefined) {
    throw new CliError(exitCode.usage, "Which attribute holds the key that runs wait on?", "Give --correlation-attribute NAME.");
  }
  return { kind: "workflow", mode, appId, workflow, correlationAttribute, keepUnmatchedSeconds: keepUnmatched };
}

/** A target in a few words. */
export function targetText(target: Subscription["target"]): string {
  if (target.kind === "https") return target.url;
  return target.mode === "start" ? `starts ${target.workflow}` : `resumes ${target.workflow} by ${target.correlationAttribute}`;
}

/** A target as fields to show. */
export function targetFields(target: Subscription["target"]): [string, string][] {
  if (target.kind === "https") {
    return [
      ["url", target.url],
      ["timeout", showSeconds(target.timeoutSeconds)],
    ];
  }
  const what: [string, string][] = [
    ["workflow", `${target.workflow} of app ${target.appId}`],
    ["mode", target.mode],
  ];
  if (target.mode === "start") return what;
  return [...what, ["correlation attribute", target.correlationAttribute], ["keeps unmatched", showSeconds(target.keepUnmatchedSeconds)]];
}
