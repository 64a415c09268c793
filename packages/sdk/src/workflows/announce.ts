/** What this program says of itself (W2): its workflows, and the build that they are of. */
import { type Announcement, hex, protocolVersion } from "@millrace/contract/wire";
import { variable } from "../environment.ts";
import { sha256 } from "../hmac.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** Names this package in announcements. */
const sdk = "millrace-typescript/0.1.0";

/** A build's id out of what is announced of its workflows and of their functions' own texts: another one when any of it is another. */
async function buildIdOf(workflows: readonly AnyWorkflow[]): Promise<string> {
  const texts = workflows.map(({ name, timeoutSeconds, concurrency, run }) => `${name} ${timeoutSeconds} ${concurrency}\n${run}`).sort();
  return hex(await sha256(new TextEncoder().encode(texts.join("\n\n")))).slice(0, 16);
}

/** The announcement. `buildId` is the one given, `MILLRACE_BUILD_ID`, or made of the functions' texts, `timeout` and `concurrency`. */
export async function announcementOf(workflows: readonly AnyWorkflow[], buildId: string | undefined): Promise<Announcement> {
  return {
    protocol: protocolVersion,
    buildId: buildId ?? variable("MILLRACE_BUILD_ID") ?? (await buildIdOf(workflows)),
    sdk,
    workflows: workflows.map(({ name, timeoutSeconds, concurrency }) => ({
      name,
      ...(timeoutSeconds === undefined ? {} : { timeoutMs: timeoutSeconds * 1000 }),
      ...(concurrency === undefined ? {} : { concurrency }),
    })),
  };
}
