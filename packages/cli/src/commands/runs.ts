/** `millrace runs`: starting runs of an app's workflows, looking at them step by step, and steering them. */
import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import type { Client } from "../client.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore } from "../leaf.ts";
import type { Output } from "../output.ts";
import { drawBar, showSpan } from "../timeline.ts";

type Run = Answer<Operations["GetRun"]>;
type Step = Answer<Operations["ListSteps"]>["steps"][number];
type Steering = Input<Operations["CancelRuns"]>["body"];

const statuses = ["queued", "running", "waiting", "completed", "failed", "cancelled", "timedOut"] as const;
/** How often `tail` asks. */
const tailEveryMs = 1000;
const barWidth = 40;
const perRequest = 100;

const isOver = ({ endedAt }: Run): boolean => endedAt !== null;
const spanOf = ({ createdAt, endedAt }: Run): string =>
  showSpan((endedAt === null ? Date.now() : Date.parse(endedAt)) - Date.parse(createdAt));
const failureText = (error: Run["error"]): string => (error === null ? "-" : `${error.name}: ${error.message}`);

function inputOf(flags: { input?: string; file?: string }): unknown {
  if (flags.input !== undefined && flags.file !== undefined) throw new CliError(exitCode.usage, "Give --input or --file, not both.");
  let text = flags.input;
  try {
    if (flags.file !== undefined) text = readFileSync(flags.file === "-" ? 0 : flags.file, "utf8");
    return text === undefined ? undefined : (JSON.parse(text) as unknown);
  } catch (error) {
    throw new CliError(
      exitCode.usage,
      `The input is no JSON, or cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function stepRow(run: Run, step: Step, drawn: boolean, now: number): string[] {
  const from = Date.parse(run.createdAt);
  const to = run.endedAt === null ? now : Date.parse(run.endedAt);
  const startedAt = Date.parse(step.startedAt);
  const endedAt = step.endedAt === null ? null : Date.parse(step.endedAt);
  return [
    step.id,
    step.type,
    step.status,
    String(step.attempt),
    `+${showSpan(startedAt - from)}`,
    endedAt === null ? (step.dueAt === null ? "-" : `until ${step.dueAt}`) : showSpan(endedAt - startedAt),
    ...(drawn ? [drawBar({ startedAt, endedAt, status: step.status }, from, to, barWidth)] : []),
    ...(drawn ? [] : [failureText(step.error)]),
  ];
}

const headings = (drawn: boolean): string[] => ["STEP", "TYPE", "STATUS", "TRIES", "AT", "TOOK", drawn ? "TIMELINE" : "ERROR"];

async function stepsOf(client: Client, appId: string, runId: string): Promise<Step[]> {
  return (await client.list<Step>("ListSteps", "steps", 10_000, { params: { appId, runId } })).items;
}

async function show(client: Client, output: Output, appId: string, run: Run): Promise<void> {
  const steps = await stepsOf(client, appId, run.id);
  if (output.json) return output.document({ ...run, steps });
  const { source } = run;
  output.fields([
    ["id", run.id],
    ["workflow", run.workflow],
    ["status", run.status],
    ["reason", failureText(run.reason)],
    ["error", failureText(run.error)],
    ["attempt", String(run.attempt)],
    ["started by", source.kind === "message" ? `message ${source.messageId}` : source.kind === "run" ? `run ${source.runId}` : "the API"],
    ["created", run.createdAt],
    ["ended", run.endedAt ?? "-"],
    ["took", spanOf(run)],
  ]);
  if (steps.length === 0) return output.note("No step was recorded yet.");
  output.line("");
  const now = Date.now();
  output.table(
    headings(output.terminal),
    steps.map((step) => stepRow(run, step, output.terminal, now)),
  );
}

function ended(run: Run): void {
  if (run.status !== "completed") process.exitCode = exitCode.failed;
}

/** Follows one run: a line for each step whenever it changes, until the run is over. */
async function follow(client: Client, output: Output, appId: string, runId: string): Promise<void> {
  const seen = new Map<string, string>();
  for (;;) {
    const run = await client.call("GetRun", { appId, runId });
    for (const step of await stepsOf(client, appId, runId)) {
      const state = `${step.status} ${step.attempt}`;
      if (seen.get(step.id) === state) continue;
      seen.set(step.id, state);
      if (output.json) output.line(JSON.stringify(step));
      else output.line(stepRow(run, step, false, Date.now()).join("\t"));
    }
    if (isOver(run)) {
      output.note(`${run.workflow} is ${run.status} after ${spanOf(run)}.`);
      return ended(run);
    }
    await wait(tailEveryMs);
  }
}

/** Follows an app: its last 20 runs, then each run that is new or changes. Ends when it is interrupted. */
async function followApp(client: Client, output: Output, appId: string): Promise<void> {
  const seen = new Map<string, string>();
  for (;;) {
    const { items } = await client.list<Run>("ListRuns", "runs", seen.size === 0 ? 20 : 200, { params: { appId } });
    for (const run of items.reverse()) {
      if (seen.get(run.id) === run.status) continue;
      seen.set(run.id, run.status);
      if (output.json) output.line(JSON.stringify(run));
      else output.line([run.createdAt, run.id, run.workflow, run.status, failureText(run.error ?? run.reason)].join("\t"));
    }
    for (const id of [...seen.keys()].slice(0, Math.max(0, seen.size - 1000))) seen.delete(id);
    await wait(tailEveryMs);
  }
}

interface FilterFlags {
  status?: (typeof statuses)[number];
  workflow?: string;
  text?: string;
}

const filterOptions = (command: Command): Command =>
  command
    .addOption(new Option("--status <status>", "only runs with this status").choices(statuses))
    .option("--workflow <name>", "only this workflow's")
    .option("--text <text>", "only runs with this in id, source or error");

/** Cancels or retries runs, by id or by filter. */
async function steer(
  verb: "cancel" | "retry",
  client: Client,
  output: Output,
  [appId = "", ...runIds]: readonly string[],
  { status, workflow, text, all }: FilterFlags & { all?: boolean },
): Promise<void> {
  const filter = { status, workflow, text };
  const filtered = all === true || Object.values(filter).some((value) => value !== undefined);
  if (filtered === runIds.length > 0)
    throw new CliError(exitCode.usage, `Say which runs to ${verb}.`, "Give either run ids, or --all or a filter.");
  const operation = verb === "cancel" ? "CancelRuns" : "RetryRuns";
  const changed: string[] = [];
  const send = async (body: Steering): Promise<string | null> => {
    const answer = await client.call(operation, { appId, body });
    changed.push(...answer.runIds);
    return answer.nextCursor;
  };
  for (let at = 0; at < runIds.length; at += perRequest) await send({ runIds: runIds.slice(at, at + perRequest) });
  // Each run once: what was woken may have ended again before the last one is.
  for (let cursor = filtered ? await send({ filter }) : null; cursor !== null; cursor = await send({ filter, cursor }))
    output.note(`${changed.length} so far`);
  if (output.json) output.document({ runIds: changed });
  else output.note(`${changed.length} ${changed.length === 1 ? "run" : "runs"} ${verb === "cancel" ? "asked to end" : "woken again"}.`);
  if (changed.length < runIds.length) process.exitCode = changed.length === 0 ? exitCode.conflict : exitCode.partlyFailed;
}

/** Declares the commands below `parent`: the program itself, or its `workflows`. */
export function runCommands(parent: Command): void {
  const runs = parent.command("runs").description("Runs of an app's workflows: start, look at, cancel, retry.");

  leaf<{ input?: string; file?: string; runId?: string; tail?: boolean }>(
    runs,
    "start <app> <workflow>",
    "Start a run. Prints its id.",
    [
      "millrace runs start billing-jobs chargeCustomer --input '{\"orderId\": 1042}'",
      "millrace runs start billing-jobs report --file input.json --tail",
    ],
    (command) =>
      command
        .option("--input <json>", "the run's input")
        .option("--file <path>", "read the input from a file; - is standard input")
        .option("--run-id <uuid>", "the run's id; a second start with it is refused")
        .option("--tail", "follow it to its end"),
    async ({ client, output }, [appId = "", workflow = ""], flags) => {
      const run = await client.call("StartRun", { appId, body: { workflow, input: inputOf(flags), runId: flags.runId } });
      if (output.json && !flags.tail) return output.document(run);
      if (!flags.tail) return output.line(run.id);
      output.note(`run ${run.id}`);
      await follow(client, output, appId, run.id);
    },
  );

  leaf<FilterFlags & { limit: number }>(
    runs,
    "list <app>",
    "List an app's runs, newest first.",
    ["millrace runs list billing-jobs", "millrace runs list billing-jobs --status failed --workflow chargeCustomer --json"],
    (command) => filterOptions(command).addOption(limitOption().default(50)),
    async ({ client, output }, [appId = ""], { limit, status, workflow, text }) => {
      const { items, nextCursor } = await client.list<Run>("ListRuns", "runs", limit, {
        params: { appId },
        query: { status, workflow, text },
      });
      if (output.json) return output.document({ runs: items, nextCursor });
      output.table(
        ["ID", "WORKFLOW", "STATUS", "ATTEMPT", "STEPS", "TOOK", "CREATED", "ERROR"],
        items.map((run) => [
          run.id,
          run.workflow,
          run.status,
          String(run.attempt),
          String(run.steps),
          spanOf(run),
          run.createdAt,
          failureText(run.error ?? run.reason),
        ]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf<{ input?: boolean; output?: boolean }>(
    runs,
    "get <app> <run>",
    "Show a run with its steps on its time axis.",
    ["millrace runs get billing-jobs 01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c", "millrace runs get billing-jobs RUN --output"],
    (command) => command.option("--input", "print its input instead").option("--output", "print its output instead"),
    async ({ client, output }, [appId = "", runId = ""], flags) => {
      if (flags.input && flags.output) throw new CliError(exitCode.usage, "Give either --input or --output, not both.");
      if (flags.input) return output.document((await client.call("GetRunInput", { appId, runId })).input ?? null);
      if (flags.output) return output.document((await client.call("GetRunOutput", { appId, runId })).output ?? null);
      await show(client, output, appId, await client.call("GetRun", { appId, runId }));
    },
  );

  leaf(
    runs,
    "tail <app> [run]",
    "Follow a run to its end, or an app's runs until interrupted. Ends with 1 when the run does not complete.",
    ["millrace runs tail billing-jobs", "millrace runs tail billing-jobs 01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c"],
    () => {},
    ({ client, output }, [appId = "", runId]) =>
      runId === undefined ? followApp(client, output, appId) : follow(client, output, appId, runId),
  );

  for (const [verb, text] of [
    ["cancel", "Ask runs to end: their waits end, and their code may clean up."],
    ["retry", "Run ended runs again with the steps that they finished, or let blocked ones go on."],
  ] as const) {
    leaf<FilterFlags & { all?: boolean }>(
      runs,
      `${verb} <app> [runs...]`,
      text,
      [
        `millrace runs ${verb} billing-jobs 01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c`,
        `millrace runs ${verb} billing-jobs --status ${verb === "cancel" ? "waiting" : "failed"} --workflow chargeCustomer`,
      ],
      (command) =>
        filterOptions(command).option(
          "--all",
          verb === "cancel" ? "every run that has not ended" : "every run that failed, was cancelled or timed out, and blocked ones",
        ),
      ({ client, output }, given, flags) => steer(verb, client, output, given, flags),
    );
  }
}
