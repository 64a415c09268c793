/** `millrace queues subscriptions`: where a queue's messages go: an endpoint, or a workflow. A subscription may be named by its queue. */
import type { Answer, Input, Operations } from "@millrace/contract";
import type { Command } from "commander";
import type { Client } from "../client.ts";
import { confirmDestructive } from "../confirm.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";
import {
  type EndpointFlags,
  endpointOptions,
  targetFields,
  targetOf,
  targetText,
  type WorkflowFlags,
  workflowOptions,
} from "../subscription-target.ts";

type Subscription = Answer<Operations["GetSubscription"]>;

/** The subscription that `reference` names: its id, its resource name, or its queue. */
async function subscriptionIdOf(client: Client, reference: string): Promise<string> {
  if (/^qsb_[a-z0-9]{12}$/.test(reference) || /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(reference)) return reference;
  const { items } = await client.list<Subscription>("ListSubscriptions", "subscriptions", 1, { query: { queueId: reference } });
  const [found] = items;
  if (found !== undefined) return found.id;
  throw new CliError(
    exitCode.notFound,
    `Queue ${reference} has no subscription.`,
    `Make one: millrace queues subscriptions create ${reference} --url URL`,
  );
}

function show(output: Output, subscription: Subscription): void {
  if (output.json) {
    output.document(subscription);
    return;
  }
  const { status } = subscription;
  const pairs: [string, string][] = [
    ["id", subscription.id],
    ["resource name", subscription.resourceName],
    ["queue", subscription.queueId],
    ...targetFields(subscription.target),
    ["batch size", String(subscription.batchSize)],
    ["concurrency", String(subscription.maxConcurrency)],
    ["state", subscription.state],
    ["health", status.health],
    ["last error", status.lastError === null ? "-" : `${status.lastError.at} ${status.lastError.class}: ${status.lastError.message}`],
    ["last success", status.lastSuccessAt ?? "-"],
    ["in flight", `${status.inFlight} of ${status.limit}`],
    ["created", subscription.createdAt],
    ["updated", subscription.updatedAt],
  ];
  if (subscription.signingSecret !== null) pairs.push(["signing secret", subscription.signingSecret]);
  output.fields(pairs);
  if (subscription.signingSecret !== null) output.note("The signing secret is shown this once. Keep it where the endpoint can read it.");
}

export function subscriptionCommands(queues: Command): void {
  const group = queues.command("subscriptions").description("Where a queue's messages go: an endpoint, or a workflow.");

  leaf<{ limit: number; queue?: string }>(
    group,
    "list",
    "List subscriptions.",
    ["millrace queues subscriptions list", "millrace queues subscriptions list --queue orders"],
    (command) => command.option("--queue <queue>", "only this queue's").addOption(limitOption()),
    async ({ client, output }, _, flags) => {
      const query = { queueId: flags.queue };
      const { items, nextCursor } = await client.list<Subscription>("ListSubscriptions", "subscriptions", flags.limit, { query });
      if (output.json) return output.document({ subscriptions: items, nextCursor });
      const queues = items.length === 0 ? [] : (await client.list<{ id: string; name: string }>("ListQueues", "queues", 1000)).items;
      const names = new Map(queues.map(({ id, name }) => [id, name]));
      output.table(
        ["ID", "QUEUE", "STATE", "HEALTH", "IN FLIGHT", "TARGET"],
        items.map(({ resourceName, queueId, state, status, target }) => [
          resourceName,
          names.get(queueId) ?? queueId,
          state,
          status.health,
          `${status.inFlight}/${status.limit}`,
          targetText(target),
        ]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf(
    group,
    "get <subscription>",
    "Show a subscription and how its deliveries go.",
    ["millrace queues subscriptions get orders", "millrace queues subscriptions get qsb_7m2k9x0q4r1s"],
    () => {},
    async ({ client, output }, [reference = ""]) =>
      show(output, await client.call("GetSubscription", { subscriptionId: await subscriptionIdOf(client, reference) })),
  );

  leaf<EndpointFlags & WorkflowFlags & { paused?: boolean }>(
    group,
    "create <queue>",
    "Push a queue's messages to an endpoint (prints the signing secret, once), or start or resume runs with them.",
    [
      "millrace queues subscriptions create orders --url https://hooks.example.com/orders",
      "millrace queues subscriptions create orders --url https://hooks.example.com/orders --batch-size 1 --concurrency 50 --paused",
      "millrace queues subscriptions create orders --workflow-app billing-jobs --workflow chargeCustomer",
      "millrace queues subscriptions create payments --workflow-app billing-jobs --workflow order --mode resume --correlation-attribute orderKey",
    ],
    (command) => {
      endpointOptions(command);
      workflowOptions(command);
      command.option("--paused", "make it without delivering yet");
    },
    async ({ client, output }, [queueId = ""], flags) => {
      const body: Input<Operations["CreateSubscription"]>["body"] = {
        queueId,
        target: targetOf(flags),
        batchSize: flags.batchSize,
        maxConcurrency: flags.concurrency,
        state: flags.paused ? "paused" : undefined,
        recordAttempts: flags.recordAttempts,
      };
      show(output, await client.call("CreateSubscription", { body }));
    },
  );

  leaf<EndpointFlags>(
    group,
    "update <subscription>",
    "Change target, batch size or concurrency, from the next delivery on.",
    ["millrace queues subscriptions update orders --concurrency 20"],
    endpointOptions,
    async ({ client, output }, [reference = ""], flags) => {
      const subscriptionId = await subscriptionIdOf(client, reference);
      const body: Input<Operations["UpdateSubscription"]>["body"] = {
        batchSize: flags.batchSize,
        maxConcurrency: flags.concurrency,
        recordAttempts: flags.recordAttempts,
      };
      if (flags.url !== undefined || flags.timeout !== undefined) {
        // a target is replaced whole, so that the part which is not named is taken from the present one
        const { target } = await client.call("GetSubscription", { subscriptionId });
        if (target.kind !== "https") throw new CliError(exitCode.usage, "A subscription to a workflow has no endpoint to change.");
        body.target = { kind: "https", url: flags.url ?? target.url, timeoutSeconds: flags.timeout ?? target.timeoutSeconds };
      }
      if (Object.values(body).every((value) => value === undefined))
        throw new CliError(exitCode.usage, "Nothing to change.", "Name at least one setting.");
      show(output, await client.call("UpdateSubscription", { subscriptionId, body }));
    },
  );

  for (const [verb, operation, text] of [
    ["pause", "PauseSubscription", "Start no more deliveries. Messages wait in the queue."],
    ["resume", "ResumeSubscription", "Deliver again."],
  ] as const) {
    leaf(
      group,
      `${verb} <subscription>`,
      text,
      [`millrace queues subscriptions ${verb} orders`],
      () => {},
      async ({ client, output }, [reference = ""]) => {
        const answer = await client.call(operation, { subscriptionId: await subscriptionIdOf(client, reference) });
        if (output.json) output.document(answer);
        else output.note(`${answer.resourceName} is ${answer.state}.`);
      },
    );
  }

  leaf<{ yes?: boolean }>(
    group,
    "delete <subscription>",
    "Stop deliveries for good. The queue and its messages stay.",
    ["millrace queues subscriptions delete orders --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [reference = ""], flags) => {
      await confirmDestructive(`Delete the subscription ${reference}`, flags.yes);
      const subscriptionId = await subscriptionIdOf(client, reference);
      await client.call("DeleteSubscription", { subscriptionId });
      if (output.json) output.document({ deleted: subscriptionId });
      else output.note(`Deleted ${subscriptionId}.`);
    },
  );

  leaf(
    group,
    "rotate-secret <subscription>",
    "Make a new signing secret and print it, once. Deliveries carry both signatures for 24 hours.",
    ["millrace queues subscriptions rotate-secret orders"],
    () => {},
    async ({ client, output }, [reference = ""]) => {
      const answer = await client.call("RotateSubscriptionSecret", { subscriptionId: await subscriptionIdOf(client, reference) });
      show(output, answer);
    },
  );
}
