/**
 * Which server a command talks to, and as whom. Flags win over variables, variables over the dev server of the working directory.
 * Invariant: the dev server's key is sent to the dev server only, never to a server that was named otherwise.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./exit.ts";

export interface Connection {
  /** Without a slash at the end. */
  url: string;
  apiKey: string;
  /** `undefined`: the only one that the key reaches. */
  organization: string | undefined;
  project: string | undefined;
}

/** What `millrace dev` leaves in its data directory for the commands beside it, and prints with `--json`. */
export interface DevFile {
  url: string;
  apiKey: string;
  organization: string;
  project: string;
}

export const devFileName = "dev.json";

export interface ConnectionFlags {
  server?: string;
  apiKey?: string;
  organization?: string;
  project?: string;
}

/** Where the commands of a directory look for the dev server's file. */
const dataBeside = (directory: string): string => join(directory, ".millrace");

/** Whether the commands of a directory find the dev server with this data directory by themselves. */
export const isFoundFrom = (directory: string, data: string): boolean => resolve(directory, data) === dataBeside(directory);

function readDevFile(directory: string): DevFile | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(dataBeside(directory), devFileName), "utf8"));
    if (typeof value !== "object" || value === null) return undefined;
    const { url, apiKey, organization, project } = value as Partial<Record<keyof DevFile, unknown>>;
    const texts = [url, apiKey, organization, project];
    return texts.every((text) => typeof text === "string") ? (value as DevFile) : undefined;
  } catch {
    return undefined;
  }
}

/** Throws a usage error when no key is to be found or the address is no URL. */
export function findConnection(flags: ConnectionFlags, env: Readonly<Record<string, string | undefined>>, directory: string): Connection {
  const given = flags.server ?? (env.MILLRACE_URL || undefined);
  const found = readDevFile(directory);
  const dev = given === undefined || given.replace(/\/+$/, "") === found?.url ? found : undefined;
  const url = (given ?? dev?.url ?? "http://127.0.0.1:7400").replace(/\/+$/, "");
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new CliError(exitCode.usage, `${url} is not an http or https URL.`, "Give one with --server or MILLRACE_URL.");
  }
  const apiKey = flags.apiKey ?? (env.MILLRACE_API_KEY || dev?.apiKey);
  if (apiKey === undefined) {
    throw new CliError(
      exitCode.usage,
      `No API key for ${url}.`,
      "Set MILLRACE_API_KEY, give --api-key, or run this beside a running `millrace dev`.",
    );
  }
  return {
    url,
    apiKey,
    organization: flags.organization ?? (env.MILLRACE_ORGANIZATION || dev?.organization),
    project: flags.project ?? (env.MILLRACE_PROJECT || dev?.project),
  };
}
