/** `millrace dev`: a server for one developer. Needs no set-up: SQLite in the working directory, a key made and printed (A9). */
import { randomBytes } from "node:crypto";
import { createClock } from "@millrace/server/clock";
import { findQueueFile } from "@millrace/server/config";
import { formatKey } from "@millrace/server/key-text";
import { type Command, InvalidArgumentError } from "commander";
import { createClient } from "../client.ts";
import { type DevFile, isFoundFrom } from "../connection.ts";
import { demoCurls, startDemo } from "../dev/demo.ts";
import { remembered, writeDevFile } from "../dev/dev-file.ts";
import { deployLocalApp, secretLine } from "../dev/local-app.ts";
import { followQueueFile } from "../dev/queue-file.ts";
import { processOutput } from "../leaf.ts";
import type { Output } from "../output.ts";
import { addSettingFlags, configOf } from "../server-flags.ts";
import { untilStopped } from "../signals.ts";
import { start } from "../start.ts";
import { version } from "../version.ts";

/** What `millrace dev` takes instead of the server's own defaults (P15, P21): loopback is open, attempts are kept, the log is quiet. */
const devDefaults = {
  logLevel: "warn",
  recordAttempts: true,
  "egress.allowHosts": ["localhost"],
  "egress.allowCidrs": ["127.0.0.0/8", "::1/128"],
  "egress.allowHttp": true,
  "egress.allowPorts": ["1-65535"],
} as const;

/** What a database elsewhere would need; a dev server has its own, whatever `DATABASE_URL` says. */
const serverOnly = ["--database-url", "--pool-size"];

interface DevFlags {
  apiKey?: string;
  json?: boolean;
  demo?: boolean;
  app?: string;
  virtualClock?: boolean;
}

function greet(output: Output, file: DevFile, data: string, virtualClock: boolean): void {
  output.line(`${output.bold(`Millrace ${version}`)} is running at ${output.bold(file.url)}`);
  output.line("");
  output.line(`  API key       ${file.apiKey}`);
  output.line(`  organization  ${file.organization}`);
  output.line(`  project       ${file.project}`);
  output.line(`  data          ${data}`);
  output.line(`  reference     ${file.url}/docs`);
  output.line("");
  if (virtualClock) {
    output.line("The clock is virtual. Move it an hour forward:");
    output.line(`  curl -sS ${file.url}/dev/clock/advance -H 'Content-Type: application/json' -d '{"seconds": 3600}'`);
    output.line("");
  }
}

function nextThing(output: Output, { url, apiKey, organization, project }: DevFile, data: string): void {
  if (isFoundFrom(process.cwd(), data)) output.line("Next, from another terminal in this directory:");
  else {
    output.line("Next, from another terminal:");
    output.line(
      `  export MILLRACE_URL=${url} MILLRACE_API_KEY=${apiKey} MILLRACE_ORGANIZATION=${organization} MILLRACE_PROJECT=${project}`,
    );
  }
  output.line("  npx millrace queues create orders");
  output.line('  npx millrace messages send orders \'{"orderId": "o-123"}\'');
  output.line("  npx millrace messages receive orders");
  output.line("");
  output.line("Or see deliveries at once: npx millrace dev --demo");
}

export function declareDev(command: Command): void {
  command
    .option("--api-key <key>", "use this key instead of making one")
    .option("--demo", "also make a queue, an endpoint and a trickle of messages, and print every delivery")
    .option("--app <url>", "deliver the messages of push queues to the app at this address, and print its signing secret", (text) => {
      if (!/^https?:\/\//i.test(text)) throw new InvalidArgumentError("It takes an http or https URL, such as http://localhost:3000.");
      return text;
    })
    .option("--virtual-clock", "let POST /dev/clock/advance move the clock forward")
    .option("--json", "print one line of JSON when ready, and nothing else")
    .addHelpText(
      "after",
      "\nExamples:\n  $ millrace dev\n  $ millrace dev --demo\n  $ millrace dev --app http://localhost:3000\n  $ millrace dev --port 0 --data ./try --json\n  $ millrace dev --virtual-clock",
    );
  addSettingFlags(command, serverOnly);
  command.action(async () => {
    const flags = command.opts<DevFlags>();
    const output = processOutput(flags.json === true);
    const { config, file: settingsFile } = configOf(command, { defaults: devDefaults, fixed: { databaseUrl: null, databases: {} } });
    const before = remembered(config.data);
    const apiKey = flags.apiKey ?? before.apiKey ?? formatKey(new Uint8Array(randomBytes(32)));
    // Also without the flag: time goes on from where it was, or leases and schedules would lie in a future that nobody moves to.
    const clock = createClock({ offset: before.clockOffsetMs });
    const place = { organization: "dev", project: "dev" };
    let file: DevFile = { url: "", apiKey, ...place };
    const keep = (clockOffsetMs: number): void => writeDevFile(config.data, { ...file, clockOffsetMs });
    const server = await start(
      { config, clock, virtualClock: flags.virtualClock ? keep : undefined, install: { ...place, key: { name: "dev", text: apiKey } } },
      "millrace dev",
    );
    file = { ...file, url: server.url };
    keep(clock.offset);
    // before anything is printed: whoever waits for the line may send a signal at once
    let endDemo = async () => {};
    let endFollowing = async () => {};
    const stopped = untilStopped(
      async () => {
        await endFollowing();
        await endDemo();
        await server.close(config.shutdownGraceSeconds * 1000);
      },
      (text) => output.note(text),
    );
    const client = createClient({ ...file });
    endFollowing = await followQueueFile(client, settingsFile ?? findQueueFile(process.cwd()) ?? "millrace.yaml", (text) =>
      output.note(text),
    );
    let secret: string | undefined;
    try {
      if (flags.app !== undefined) secret = await deployLocalApp(client, flags.app);
    } catch (error) {
      await endFollowing();
      await server.close(0);
      throw error;
    }
    if (output.json)
      process.stdout.write(`${JSON.stringify({ ...file, ...(secret === undefined ? {} : { queueSigningSecret: secret }) })}\n`);
    else greet(output, file, config.data, flags.virtualClock === true);
    if (secret !== undefined && !output.json) {
      output.line(`Messages of push queues go to ${flags.app}. Give the app, to verify them:`);
      output.line(`  ${secretLine(secret)}`);
      output.line("");
    }

    if (flags.demo) {
      if (!output.json) {
        output.line("Try it yourself, from another terminal:");
        for (const line of demoCurls(client)) output.line(`  ${line}`);
        output.line("");
        output.line("Deliveries:");
      }
      endDemo = await startDemo(client, output);
    } else if (!output.json) nextThing(output, file, config.data);
    await stopped;
  });
}
