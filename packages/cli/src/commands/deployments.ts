/** `millrace deployments`: where push consumers are called. */
import type { Answer, Operations } from "@millrace/contract";
import type { Command } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { environmentOption, leaf, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";

type Deployment = Answer<Operations["GetDeployment"]>;

/** How many deployments the list shows: the newest. */
const SHOWN = 200;

function show(output: Output, deployment: Deployment): void {
  if (output.json) {
    output.document(deployment);
    return;
  }
  output.fields([
    ["id", deployment.id],
    ["environment", deployment.environment],
    ["url", deployment.url],
    ["state", deployment.state],
    ["promoted", deployment.promotedAt ?? "never"],
    ["created", deployment.createdAt],
  ]);
}

export function deploymentCommands(program: Command): void {
  const deployments = program.command("deployments").description("Deployments: where the messages of push queues go.");

  leaf<{ environment?: string }>(
    deployments,
    "list",
    "List an environment's deployments, newest first.",
    ["millrace deployments list", "millrace deployments list --environment staging"],
    (command) => command.addOption(environmentOption()),
    async ({ client, output }, _, { environment }) => {
      const { items, total } = await client.call("ListDeployments", { query: { environment, limit: SHOWN } });
      if (output.json) return output.document({ deployments: items, total });
      output.table(
        ["ID", "STATE", "ENVIRONMENT", "PROMOTED", "URL"],
        items.map((each) => [each.id, each.state, each.environment, each.promotedAt ?? "-", each.url]),
      );
      if (total > items.length) output.note(`The newest ${items.length} of ${total}.`);
    },
  );

  leaf<{ environment?: string; promote?: boolean }>(
    deployments,
    "register <id> <url>",
    "Register a deployment at a base URL, or change its URL. It is called once it is promoted.",
    ["millrace deployments register dpl_42 https://shop-42.example.com --promote"],
    (command) => command.option("--promote", "call it from now on").addOption(environmentOption()),
    async ({ client, output }, [deploymentId = "", url = ""], { environment, promote }) => {
      const registered = await client.call("PutDeployment", { deploymentId, body: { url, environment } });
      show(output, promote === true ? await client.call("PromoteDeployment", { deploymentId, body: {} }) : registered);
    },
  );

  leaf(
    deployments,
    "promote <id>",
    "Send deliveries to a deployment from now on. Promoting an older one rolls back.",
    ["millrace deployments promote dpl_41"],
    () => {},
    async ({ client, output }, [deploymentId = ""]) => show(output, await client.call("PromoteDeployment", { deploymentId, body: {} })),
  );

  leaf<{ yes?: boolean }>(
    deployments,
    "retire <id>",
    "End a deployment's service. While nothing is deployed messages wait.",
    ["millrace deployments retire dpl_40 --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [deploymentId = ""], { yes }) => {
      await confirmDestructive(`Retire deployment ${deploymentId}`, yes);
      show(output, await client.call("RetireDeployment", { deploymentId }));
    },
  );
}
