/**
 * Every setting of the server, declared once: its bounds, its default, what it is for, and under which names it can be given.
 * Invariant: a setting is known by its dotted name here (`egress.allowHosts`); variable, flag and file key follow from this table,
 * and so does the table in `docs/configuration.md`.
 */
import { shapes } from "@millrace/contract";
import { z } from "zod";
import { parseBlock } from "./delivery/addresses.ts";
import { DEFAULT_DATABASE, MOST_DATABASES } from "./store/database-numbers.ts";

/** What a setting carries besides its shape. `bound` completes the sentence "must be …". */
interface SettingMeta {
  description: string;
  bound: string;
  /** The environment variable; `MILLRACE_` and the name in capitals unless it has an older name. */
  env: string;
  /** The flag of `millrace server` and `millrace dev`, with its dashes. */
  flag: string;
  /** Masked wherever settings are shown. `url` masks only the password in it. */
  secret?: "all" | "url";
  /** How text from a variable or a flag becomes a value. */
  text: "text" | "number" | "boolean" | "list" | "map";
  default: string;
}

interface Given {
  env: string;
  flag: string;
  secret?: "all" | "url";
  bound?: string;
}

function describe<S extends z.ZodType>(schema: S, meta: SettingMeta): S {
  return schema.meta({ ...meta });
}

function integer(min: number, max: number, fallback: number, description: string, given: Given) {
  const bound = `a whole number from ${min.toLocaleString("en")} to ${max.toLocaleString("en")}`;
  return describe(z.int().min(min).max(max).default(fallback), {
    bound,
    text: "number",
    default: fallback.toLocaleString("en"),
    description,
    ...given,
  });
}

function flag(fallback: boolean, description: string, given: Given) {
  return describe(z.boolean().default(fallback), {
    bound: "true or false",
    text: "boolean",
    default: String(fallback),
    description,
    ...given,
  });
}

function list(item: z.ZodType<string>, bound: string, description: string, given: Given) {
  return describe(z.array(item).max(1000).default([]), { bound, text: "list", default: "none", description, ...given });
}

function optionalText(item: z.ZodType<string>, bound: string, description: string, given: Given) {
  return describe(item.nullable().default(null), { bound, text: "text", default: "unset", description, ...given });
}

function isUrl(text: string, protocols: readonly string[]): boolean {
  return URL.canParse(text) && protocols.includes(new URL(text).protocol);
}

/** The 32 bytes that an encryption key's text stands for (base64, base64url or hex), or `null` when it stands for anything else. */
export function decodeEncryptionKey(text: string): Uint8Array | null {
  if (/^[0-9a-f]{64}$/i.test(text)) return new Uint8Array(Buffer.from(text, "hex"));
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return null;
  const bytes = new Uint8Array(Buffer.from(text, "base64"));
  return bytes.length === 32 ? bytes : null;
}

const host = z.string().regex(/^[A-Za-z0-9._:-]{1,253}$/);
const block = z.string().refine((text) => {
  try {
    parseBlock(text);
    return true;
  } catch {
    return false;
  }
});

/** `8080`, or a range such as `8000-8100`; ends included. `null` when the text is neither. */
export function portRange(text: string): { from: number; to: number } | null {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  if (match === null) return null;
  const from = Number(match[1]);
  const to = match[2] === undefined ? from : Number(match[2]);
  return from >= 1 && to <= 65_535 && from <= to ? { from, to } : null;
}
const ports = z.preprocess(
  (value) => (typeof value === "number" ? String(value) : value),
  z.string().refine((text) => portRange(text) !== null),
) as z.ZodType<string>;

const databases = z
  .record(
    shapes.databaseName.refine((name) => name !== DEFAULT_DATABASE),
    z.string().refine((text) => isUrl(text, ["postgres:", "postgresql:"])),
  )
  .refine((named) => Object.keys(named).length <= MOST_DATABASES);

/** All settings. The file `millrace.yaml` has exactly this shape, besides `services`, which says what queues there are. */
export const configSchema = z.strictObject({
  host: describe(host.default("127.0.0.1"), {
    env: "MILLRACE_HOST",
    flag: "--host",
    text: "text",
    bound: "an address or a host name to listen on",
    default: "127.0.0.1",
    description: "The address to listen on. `0.0.0.0` or `::` listens on all of them.",
  }),
  port: integer(0, 65_535, 7400, "The port to listen on. 0 takes a free one.", { env: "MILLRACE_PORT", flag: "--port" }),
  publicUrl: optionalText(
    z.string().refine((text) => isUrl(text, ["http:", "https:"])),
    "an http or https URL",
    "Where others reach this server, for the links in notifications; unset: where it listens. Its host is refused as a push target.",
    { env: "MILLRACE_PUBLIC_URL", flag: "--public-url" },
  ),
  ownHosts: list(host, "host names, separated by commas", "Further host names of this server, refused as push targets.", {
    env: "MILLRACE_OWN_HOSTS",
    flag: "--own-hosts",
  }),
  region: describe(
    z
      .string()
      .regex(/^[a-z0-9-]{1,32}$/)
      .default("local"),
    {
      env: "MILLRACE_REGION",
      flag: "--region",
      text: "text",
      bound: "1 to 32 of lower-case letters, digits and -",
      default: "local",
      description: "The region in the CRNs of topics and queues. Whoever stores CRNs needs it to stay.",
    },
  ),
  data: describe(z.string().min(1).max(4096).default("./.millrace"), {
    env: "MILLRACE_DATA",
    flag: "--data",
    text: "text",
    bound: "a path of a directory",
    default: "./.millrace",
    description: "The directory of the SQLite database and of its key file. Not used on PostgreSQL.",
  }),
  databaseUrl: optionalText(
    z.string().refine((text) => isUrl(text, ["postgres:", "postgresql:"])),
    "a postgres:// URL",
    "The PostgreSQL database. Unset: SQLite in the data directory.",
    { env: "DATABASE_URL", flag: "--database-url", secret: "url" },
  ),
  databases: describe(databases.default({}), {
    env: "MILLRACE_DATABASES",
    flag: "--databases",
    secret: "url",
    text: "map",
    bound: "names of 1 to 32 lower-case letters, digits and -, each once with a postgres:// URL, and none of them `default`",
    default: "none",
    description:
      "Further PostgreSQL databases that queues can be placed on, by name: `eu=postgres://…`, separated by spaces or commas; in the file a map.",
  }),
  poolSize: integer(3, 200, 10, "PostgreSQL connections that this node may hold to each database.", {
    env: "MILLRACE_POOL_SIZE",
    flag: "--pool-size",
  }),
  encryptionKeys: list(
    z.string().refine((text) => decodeEncryptionKey(text) !== null),
    "keys of 32 bytes in base64 or hex, separated by commas, newest first",
    "Encrypts signing secrets at rest. Required on PostgreSQL; on SQLite a key file is made when it is unset.",
    { env: "MILLRACE_ENCRYPTION_KEY", flag: "--encryption-key", secret: "all" },
  ),
  messageSizeLimitBytes: integer(262_144, 1_048_576, 262_144, "How large a message may be: body, attribute names and values together.", {
    env: "MILLRACE_MESSAGE_SIZE_LIMIT",
    flag: "--message-size-limit",
  }),
  memoryCapMegabytes: integer(128, 1_048_576, 1024, "From this much memory on, new work is answered 503 until it shrinks.", {
    env: "MILLRACE_MEMORY_CAP",
    flag: "--memory-cap",
  }),
  shutdownGraceSeconds: integer(0, 600, 30, "How long open deliveries may take to finish after SIGTERM.", {
    env: "MILLRACE_SHUTDOWN_GRACE",
    flag: "--shutdown-grace",
  }),
  logLevel: describe(z.enum(["silent", "fatal", "error", "warn", "info", "debug", "trace"]).default("info"), {
    env: "MILLRACE_LOG_LEVEL",
    flag: "--log-level",
    text: "text",
    bound: "one of silent, fatal, error, warn, info, debug, trace",
    default: "info",
    description: "What is logged. `debug` has a line for every delivery attempt.",
  }),
  recordAttempts: flag(false, "Whether new subscriptions also keep successful attempts for inspection.", {
    env: "MILLRACE_RECORD_ATTEMPTS",
    flag: "--record-attempts",
  }),
  egress: z
    .strictObject({
      allowHosts: list(
        host,
        "host names, separated by commas",
        "Host names (exact) that may be push targets although they are private, single labels or addresses.",
        { env: "MILLRACE_EGRESS_ALLOW_HOSTS", flag: "--egress-allow-hosts" },
      ),
      allowCidrs: list(block, "address blocks such as 10.1.0.0/16, separated by commas", "Address blocks that deliveries may connect to.", {
        env: "MILLRACE_EGRESS_ALLOW_CIDRS",
        flag: "--egress-allow-cidrs",
      }),
      allowHttp: flag(false, "Whether push targets may be plain `http`.", {
        env: "MILLRACE_EGRESS_ALLOW_HTTP",
        flag: "--egress-allow-http",
      }),
      allowPorts: list(
        ports,
        "ports or ranges such as 8000-8100, from 1 to 65,535, separated by commas",
        "Ports besides 443 that push targets may have.",
        { env: "MILLRACE_EGRESS_ALLOW_PORTS", flag: "--egress-allow-ports" },
      ),
    })
    .prefault({}),
});

/** The settings in force. */
export type Config = z.output<typeof configSchema>;

export interface Setting extends SettingMeta {
  /** Dotted, as in the file: `egress.allowHosts`. */
  name: string;
}

function isObject(schema: z.ZodType): schema is z.ZodObject {
  return schema instanceof z.ZodObject;
}

function collect(shape: Record<string, z.ZodType>, prefix: string): Setting[] {
  return Object.entries(shape).flatMap(([key, schema]): Setting[] => {
    const inner = schema instanceof z.ZodPrefault ? (schema.unwrap() as z.ZodType) : schema;
    if (isObject(inner)) return collect(inner.shape as Record<string, z.ZodType>, `${prefix}${key}.`);
    return [{ name: `${prefix}${key}`, ...(schema.meta() as unknown as SettingMeta) }];
  });
}

/** Every setting in the order of the schema. */
export const settings: readonly Setting[] = collect(configSchema.shape as Record<string, z.ZodType>, "");
