/** Where the server's API is and who calls it, for what runs outside of workflows. */
import { addressOf } from "../address.ts";
import { keyAuthorizer, missingAuthorizer } from "../credentials.ts";
import { variable } from "../environment.ts";
import { ConfigurationError } from "../errors.ts";
import { platform, type Runtime } from "../runtime.ts";
import { createTransport, type Transport } from "../transport.ts";

/** Who calls, and where. What is not given comes from the environment. */
export interface ConnectionOptions {
  /** `MILLRACE_API_KEY` */
  apiKey?: string;
  /** By id or name; `MILLRACE_ORGANIZATION`. */
  organizationId?: string;
  /** By id or name; `MILLRACE_PROJECT`. */
  projectId?: string;
  /** `MILLRACE_URL`, else `http://127.0.0.1:7400`. */
  baseUrl?: string;
  /** How long one try may take, in milliseconds; 30,000 unless given. */
  timeoutMs?: number;
  /** Network, time and chance, for tests. */
  runtime?: Partial<Runtime>;
}

/** What calls go through. */
export interface Connection {
  transport: Transport;
  /** `/v1/organizations/{o}/projects/{p}`. Throws `ConfigurationError` when one of them is not known. */
  projectPath(): string;
  runtime: Runtime;
}

/** Opens a connection, which calls nothing. Throws `ConfigurationError` when the address is no URL. */
export function connect(options: ConnectionOptions, maxRetries: number): Connection {
  const runtime: Runtime = { ...platform, ...options.runtime };
  const apiKey = options.apiKey ?? variable("MILLRACE_API_KEY");
  return {
    transport: createTransport({
      url: addressOf(options.baseUrl),
      authorizer: apiKey === undefined ? missingAuthorizer : keyAuthorizer(apiKey),
      timeoutMs: options.timeoutMs ?? 30_000,
      maxRetries,
      runtime,
    }),
    projectPath() {
      const organization = options.organizationId ?? variable("MILLRACE_ORGANIZATION");
      const project = options.projectId ?? variable("MILLRACE_PROJECT");
      if (organization === undefined) throw new ConfigurationError("No organization. Set MILLRACE_ORGANIZATION, or pass organizationId.");
      if (project === undefined) throw new ConfigurationError("No project. Set MILLRACE_PROJECT, or pass projectId.");
      return `/v1/organizations/${encodeURIComponent(organization)}/projects/${encodeURIComponent(project)}`;
    },
    runtime,
  };
}
