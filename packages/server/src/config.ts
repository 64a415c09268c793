/**
 * Finds out what settings are in force, from flags, environment and file, in this order of precedence (A10).
 * Invariant: a configuration that was loaded is complete and within its bounds; a fault names the setting, where its value came
 * from and the bound, and every fault is told at once. Only this file reads settings.
 */
import { existsSync, readFileSync } from "node:fs";
import { nearest } from "@millrace/contract";
import { parseDocument } from "yaml";
import { type Config, configSchema, decodeEncryptionKey, portRange, type Setting, settings } from "./config-schema.ts";
import type { EgressPolicy } from "./delivery/types.ts";

export { findQueueFile, type QueueFile, readQueueFile } from "./config-queues.ts";
export { type Config, configSchema, decodeEncryptionKey, type Setting, settings } from "./config-schema.ts";

/** Where a value came from: `name` is the flag, the variable or the file's path; empty for a default. */
export interface Origin {
  from: "default" | "file" | "environment" | "flag";
  name: string;
}

export interface ConfigSources {
  /** By flag name with its dashes (`--port`); text as typed, `true` for a switch. */
  flags?: Readonly<Record<string, string | boolean | undefined>>;
  env?: Readonly<Record<string, string | undefined>>;
  /** A path that must exist. Unset: `MILLRACE_CONFIG`, else `millrace.yaml` in the working directory if there is one. */
  file?: string;
  /** What to take instead of the schema's own defaults, by dotted name: `millrace dev` opens loopback this way. */
  defaults?: Readonly<Record<string, unknown>>;
  /** What holds whatever else is given, by dotted name. */
  fixed?: Readonly<Record<string, unknown>>;
  /** Whether nothing will be sealed or opened: then PostgreSQL needs no key. */
  sealsNothing?: boolean;
}

/** Settings that cannot be used. `problems` has one sentence each. */
export class ConfigError extends Error {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** How an encryption key is made; part of the error that asks for one (P5). */
export const encryptionKeyAdvice = "make one with: openssl rand -base64 32";

/** Variables of the same prefix that are not settings of the server: what clients read, and what the tests use. */
const otherVariables = new Set([
  "MILLRACE_CONFIG",
  "MILLRACE_URL",
  "MILLRACE_API_KEY",
  "MILLRACE_ORGANIZATION",
  "MILLRACE_PROJECT",
  "MILLRACE_QUEUE_SIGNING_SECRET",
]);
/** A Kubernetes service called `millrace` puts these into every pod of its namespace. */
const kubernetesVariable = /^MILLRACE_(?:.*_)?(?:SERVICE_(?:HOST|PORT)(?:_.*)?|PORT_\d+_(?:TCP|UDP)(?:_.*)?)$/;

function unknown(name: string, where: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return `${name}: no such setting${where}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

function fromText(setting: Setting, text: string): unknown {
  if (setting.text === "number") return /^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : text;
  if (setting.text === "boolean") return text === "true" || text === "1" ? true : text === "false" || text === "0" ? false : text;
  if (setting.text === "map") {
    // What is no pair has no value, and a name that comes twice is no map: their bound is told.
    const pairs = text
      .split(/\s+|,(?=[^\s,=]*=postgres)/)
      .filter((item) => item !== "")
      .map((item) => [item.split("=", 1)[0], item.slice(item.indexOf("=") + 1)] as const);
    return new Set(pairs.map(([name]) => name)).size === pairs.length ? Object.fromEntries(pairs) : text;
  }
  if (setting.text === "list") {
    return text
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
  }
  return text;
}

/** The value as errors may show it. */
function shown(setting: Setting, value: unknown): string {
  if (setting.secret !== undefined) return "something else";
  return (typeof value === "string" ? JSON.stringify(value) : String(JSON.stringify(value))).slice(0, 100);
}

function flatten(value: object, prefix: string, groups: ReadonlySet<string>, into: Map<string, unknown>): void {
  for (const [key, inner] of Object.entries(value)) {
    const name = `${prefix}${key}`;
    if (groups.has(name) && typeof inner === "object" && inner !== null && !Array.isArray(inner)) {
      flatten(inner, `${name}.`, groups, into);
    } else into.set(name, inner);
  }
}

function readFile(path: string, problems: string[]): Map<string, unknown> {
  const found = new Map<string, unknown>();
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    problems.push(`${path}: cannot be read (${error instanceof Error ? error.message : String(error)})`);
    return found;
  }
  const document = parseDocument(text);
  const fault = document.errors[0];
  if (fault !== undefined) {
    problems.push(`${path}: is not valid YAML: ${fault.message.split("\n")[0]}`);
    return found;
  }
  const value: unknown = document.toJS();
  if (value === null || value === undefined) return found;
  if (typeof value !== "object" || Array.isArray(value)) {
    problems.push(`${path}: must be a map of settings`);
    return found;
  }
  flatten(value, "", new Set(settings.flatMap(({ name }) => name.split(".").slice(0, -1))), found);
  return found;
}

function fileInForce(sources: ConfigSources, env: Readonly<Record<string, string | undefined>>): string | undefined {
  return sources.file ?? env.MILLRACE_CONFIG ?? (existsSync("millrace.yaml") ? "millrace.yaml" : undefined);
}

/**
 * The settings in force and where each came from, by dotted name. Throws `ConfigError` with every fault found.
 * An empty variable counts as unset.
 */
export function loadConfig(sources: ConfigSources = {}): { config: Config; origins: Record<string, Origin>; file: string | undefined } {
  const env = sources.env ?? {};
  const flags = sources.flags ?? {};
  const problems: string[] = [];
  const values = new Map<string, { value: unknown; origin: Origin }>();
  const byName = new Map(settings.map((setting) => [setting.name, setting]));

  for (const [name, value] of Object.entries(sources.defaults ?? {})) values.set(name, { value, origin: { from: "default", name: "" } });

  const file = fileInForce(sources, env);
  if (file !== undefined) {
    for (const [name, value] of readFile(file, problems)) {
      if (byName.has(name)) values.set(name, { value, origin: { from: "file", name: file } });
      else if (name !== "services") problems.push(unknown(name, ` in ${file}`, [...byName.keys()]));
    }
  }

  const variables = new Map(settings.map((setting) => [setting.env, setting]));
  for (const [variable, text] of Object.entries(env)) {
    const setting = variables.get(variable);
    if (setting === undefined) {
      const ours = variable.startsWith("MILLRACE_") && !variable.startsWith("MILLRACE_TEST_");
      if (ours && !otherVariables.has(variable) && !kubernetesVariable.test(variable)) {
        problems.push(unknown(variable, " in the environment", [...variables.keys(), ...otherVariables]));
      }
    } else if (text !== undefined && text !== "" && !(variable === "MILLRACE_PORT" && text.startsWith("tcp://"))) {
      values.set(setting.name, { value: fromText(setting, text), origin: { from: "environment", name: variable } });
    }
  }

  const byFlag = new Map(settings.map((setting) => [setting.flag, setting]));
  for (const [flag, given] of Object.entries(flags)) {
    if (given === undefined) continue;
    const setting = byFlag.get(flag);
    if (setting === undefined) problems.push(unknown(flag, " among the flags", [...byFlag.keys()]));
    else
      values.set(setting.name, {
        value: typeof given === "string" ? fromText(setting, given) : given,
        origin: { from: "flag", name: flag },
      });
  }

  for (const [name, value] of Object.entries(sources.fixed ?? {})) values.set(name, { value, origin: { from: "default", name: "" } });

  const { config, faults } = check(values, byName);
  problems.push(...faults);
  if (config === undefined || problems.length > 0) throw new ConfigError(problems);
  if (config.databaseUrl !== null && config.encryptionKeys.length === 0 && !sources.sealsNothing) {
    throw new ConfigError([
      `encryptionKeys: PostgreSQL needs a key that encrypts signing secrets; set MILLRACE_ENCRYPTION_KEY (${encryptionKeyAdvice})`,
    ]);
  }
  if (config.databaseUrl === null && Object.keys(config.databases).length > 0)
    throw new ConfigError(["databases: further databases need PostgreSQL as the default one; set DATABASE_URL"]);
  const origins: Record<string, Origin> = {};
  for (const { name } of settings) origins[name] = values.get(name)?.origin ?? { from: "default", name: "" };
  return { config, origins, file };
}

function check(
  values: ReadonlyMap<string, { value: unknown; origin: Origin }>,
  byName: ReadonlyMap<string, Setting>,
): { config: Config | undefined; faults: string[] } {
  const input: Record<string, unknown> = {};
  for (const [name, { value }] of values) {
    const path = name.split(".");
    let into = input;
    for (const key of path.slice(0, -1)) {
      into[key] ??= {};
      into = into[key] as Record<string, unknown>;
    }
    into[path.at(-1) ?? name] = value;
  }
  const parsed = configSchema.safeParse(input);
  if (parsed.success) return { config: parsed.data, faults: [] };
  const faults = new Map<string, string>();
  for (const issue of parsed.error.issues) {
    const name = [...byName.keys()].find((known) => `${issue.path.join(".")}.`.startsWith(`${known}.`));
    const setting = name === undefined ? undefined : byName.get(name);
    if (setting === undefined) {
      faults.set(issue.path.join("."), `${issue.path.join(".")}: ${issue.message}`);
      continue;
    }
    const given = values.get(setting.name);
    const from = given === undefined || given.origin.from === "default" ? "" : ` (from ${given.origin.name})`;
    faults.set(setting.name, `${setting.name}: must be ${setting.bound}, got ${shown(setting, given?.value)}${from}`);
  }
  return { config: undefined, faults: [...faults.values()] };
}

function maskedUrl(text: string): string {
  const url = new URL(text);
  if (url.password !== "") url.password = "********";
  for (const name of [...url.searchParams.keys()]) if (/password|key/i.test(name)) url.searchParams.set(name, "********");
  return url.href;
}

/** A setting's value as it may be shown: secrets masked (P5). */
export function maskedValue(setting: Setting, config: Config): string {
  const value = setting.name.split(".").reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], config);
  if (value === null || (Array.isArray(value) && value.length === 0)) return "-";
  if (setting.secret === "all") return Array.isArray(value) ? value.map(() => "********").join(",") : "********";
  if (setting.text === "map") {
    const named = Object.entries(value as Record<string, string>).map(([key, url]) => `${key}=${maskedUrl(url)}`);
    return named.length === 0 ? "-" : named.join(" ");
  }
  if (setting.secret === "url") return maskedUrl(String(value));
  return Array.isArray(value) ? value.join(",") : String(value);
}

/** The encryption keys' bytes, newest first. */
export function encryptionKeyBytes(config: Config): Uint8Array[] {
  return config.encryptionKeys.map((text) => decodeEncryptionKey(text)).filter((bytes) => bytes !== null);
}

/** The endpoint rules that the settings open (P21), with the names this server answers to itself (P18). */
export function egressPolicy(config: Config): EgressPolicy {
  const allowPorts = config.egress.allowPorts.flatMap((text) => {
    const range = portRange(text);
    return range === null ? [] : Array.from({ length: range.to - range.from + 1 }, (_, i) => range.from + i);
  });
  const own = config.publicUrl === null ? [] : [new URL(config.publicUrl).hostname];
  return {
    allowHosts: config.egress.allowHosts,
    allowCidrs: config.egress.allowCidrs,
    allowHttp: config.egress.allowHttp,
    allowPorts,
    ownHosts: [...new Set([...own, ...config.ownHosts])],
  };
}
