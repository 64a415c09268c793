/** `millrace keys`: a project's API keys. A key's secret is printed when it is made and never again. */
import type { Answer, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import type { Client } from "../client.ts";
import { confirmDestructive } from "../confirm.ts";
import { parseSeconds } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { collect, leaf, limitOption, noteMore, yesOption } from "../leaf.ts";

type Key = Answer<Operations["GetKey"]>;

function statementsText(key: Key): string {
  return key.statements.map(({ allow, on }) => `${allow.join(",")} on ${on.join(",")}`).join("; ");
}

/** The id of the key that `reference` names, by id or by name. */
async function keyIdOf(client: Client, reference: string): Promise<string> {
  if (/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(reference)) return reference;
  const { items } = await client.list<Key>("ListKeys", "keys", 10_000);
  const found = items.filter(({ name }) => name === reference);
  const [first] = found;
  if (found.length > 1) throw new CliError(exitCode.conflict, `There are ${found.length} keys named ${reference}.`, "Give the key's id.");
  if (first === undefined) throw new CliError(exitCode.notFound, `There is no key named ${reference}.`);
  return first.id;
}

export function keyCommands(program: Command): void {
  const keys = program.command("keys").description("API keys of the project.");

  leaf<{ limit: number }>(
    keys,
    "list",
    "List the project's API keys.",
    ["millrace keys list"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, flags) => {
      const { items, nextCursor } = await client.list<Key>("ListKeys", "keys", flags.limit);
      if (output.json) {
        output.document({ keys: items, nextCursor });
        return;
      }
      output.table(
        ["NAME", "ID", "LAST USED", "EXPIRES", "ALLOWS"],
        items.map((key) => [key.name, key.id, key.lastUsedAt ?? "never", key.expiresAt ?? "never", statementsText(key)]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf<{ allow?: string[]; on?: string[]; expires?: number }>(
    keys,
    "create <name>",
    "Make an API key. Prints its secret, once.",
    [
      "millrace keys create shop --allow 'queues.messages.send' --on 'acme/shop/queues/orders'",
      "millrace keys create worker --allow 'queues.messages.*' --expires 90d",
    ],
    (command) =>
      command
        .option("--allow <permission>", "what the key may do; a pattern with *, may be repeated", collect)
        .option("--on <resource>", "on what: a pattern with *, may be repeated (default: the whole project)", collect)
        .addOption(new Option("--expires <duration>", "when the key stops working").argParser(parseSeconds)),
    async ({ client, output }, [name = ""], flags) => {
      if (flags.allow === undefined) {
        throw new CliError(exitCode.usage, "A key without a permission can do nothing.", "Give --allow, such as --allow 'queues.*'.");
      }
      const expiresAt = flags.expires === undefined ? undefined : new Date(Date.now() + flags.expires * 1000).toISOString();
      const statements = [{ allow: flags.allow, on: flags.on ?? ["*"] }];
      const key = await client.call("CreateKey", { body: { name, statements, expiresAt } });
      if (output.json) {
        output.document(key);
        return;
      }
      output.fields([
        ["name", key.name],
        ["id", key.id],
        ["allows", statementsText(key)],
        ["expires", key.expiresAt ?? "never"],
        ["key", key.secret ?? "-"],
      ]);
      output.note("The key is shown this once.");
    },
  );

  leaf<{ yes?: boolean }>(
    keys,
    "delete <key>",
    "Delete an API key, by name or id. It stops working at once.",
    ["millrace keys delete shop --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [reference = ""], flags) => {
      await confirmDestructive(`Delete key ${reference}`, flags.yes);
      const keyId = await keyIdOf(client, reference);
      await client.call("DeleteKey", { keyId });
      if (output.json) output.document({ deleted: keyId });
      else output.note(`Deleted ${keyId}.`);
    },
  );
}
