/** A client: where the server is, who calls, and how patient it is. One serves any number of queues. */
import { addressOf } from "./address.ts";
import { type ClientCredentials, keyAuthorizer, missingAuthorizer, tokenAuthorizer } from "./credentials.ts";
import { variable } from "./environment.ts";
import { ConfigurationError } from "./errors.ts";
import { createQueue, type Queue, type QueueContext, type QueueOptions } from "./queue.ts";
import { platform, type Runtime } from "./runtime.ts";
import type { Topic } from "./topics/topic.ts";
import { createTopics, type Topics } from "./topics/topics.ts";
import { createTransport } from "./transport.ts";

/** Configuration of a client. What is not given comes from the environment. */
export interface MillraceOptions {
  /** The server's address; `MILLRACE_URL`, else `http://127.0.0.1:7400`. */
  url?: string;
  /** `MILLRACE_API_KEY` */
  apiKey?: string;
  /** Instead of a key: a key's id and the key, traded for tokens that end after an hour. */
  credentials?: ClientCredentials;
  /** The project (Gigadrive: application) by name or id; `MILLRACE_PROJECT`. */
  project?: string;
  /** The environment of its queues by slug or id; the key's own unless given, else `production`. */
  environment?: string;
  /** How long one try may take, in milliseconds, beyond what a receive waits; 30,000 unless given. */
  timeoutMs?: number;
  /** Tries after the first when the server is busy or cannot be reached; 4 unless given. */
  maxRetries?: number;
  /** Network, time and chance, for tests. */
  runtime?: Partial<Runtime>;
}

/** What a client holds: reachable in this module only. */
let contextOf: (client: Millrace) => QueueContext;

/** A client of one server. Making one calls nothing. */
export class Millrace {
  readonly #context: QueueContext;
  /** The topics of the project. */
  readonly topics: Topics;
  static {
    contextOf = (client) => client.#context;
  }

  /** Throws `ConfigurationError` when the address is no URL. */
  constructor(options: MillraceOptions = {}) {
    const runtime: Runtime = { ...platform, ...options.runtime };
    const url = addressOf(options.url);
    const apiKey = options.credentials === undefined ? (options.apiKey ?? variable("MILLRACE_API_KEY")) : undefined;
    const project = options.project ?? variable("MILLRACE_PROJECT");
    const maxRetries = options.maxRetries ?? 4;
    let authorizer = missingAuthorizer;
    if (options.credentials !== undefined) authorizer = tokenAuthorizer(url, options.credentials, runtime);
    else if (apiKey !== undefined) authorizer = keyAuthorizer(apiKey);
    const transport = createTransport({ url, authorizer, timeoutMs: options.timeoutMs ?? 30_000, maxRetries, runtime });
    this.topics = createTopics({ transport, project, runtime });
    this.#context = {
      transport,
      queuesPath() {
        if (project === undefined) throw new ConfigurationError("No project. Set MILLRACE_PROJECT, or pass project to new Millrace({…}).");
        return `/applications/${encodeURIComponent(project)}/queues`;
      },
      environment: options.environment,
      maxRetries,
      runtime,
    };
  }

  /** A queue by name. The type of its payloads comes from `validate`, or from you. */
  queue<T = unknown>(name: string, options: QueueOptions<T> = {}): Queue<T> {
    return createQueue(name, options, () => this.#context, this.#context.runtime);
  }

  /** A topic by name, id or CRN. */
  topic(reference: string): Topic {
    return this.topics.topic(reference);
  }
}

let shared: Millrace | undefined;

/** A queue by name, of a client that is configured by the environment alone. It is made at the first call, so that a handler needs no key. */
export function queue<T = unknown>(name: string, options: QueueOptions<T> = {}): Queue<T> {
  const context = () => {
    shared ??= new Millrace();
    return contextOf(shared);
  };
  return createQueue(name, options, context, platform);
}
