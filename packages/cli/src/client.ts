/**
 * Calls the server. Every call is an operation of the contract by name: its route and its types come from there. Organization and
 * project, the Gigadrive door's application and the Basaltic door's account, are filled in from the connection. A refusal is an `ApiError`, a server that cannot be reached a `CliError`.
 */
import type { Answer, Input, OperationName, Operations, Problem } from "@millrace/contract";
import { accountRoutes, routes } from "@millrace/contract/routes";
import type { Connection } from "./connection.ts";
import { CliError, exitCode, exitCodeOfStatus } from "./exit.ts";

type Place = "organizationId" | "projectId" | "applicationId";
type Part<Name extends OperationName, Key extends "query" | "body"> = Input<Operations[Name]>[Key];
type Given<Name extends OperationName> = Input<Operations[Name]>["params"];
/** An operation without parameters has a type that any name fits. */
type Params<Name extends OperationName> = string extends keyof Given<Name> ? unknown : Omit<Given<Name>, Place>;
/** What a call is given: the path's own parameters side by side, and `query` and `body` as the contract has them. */
type CallInput<Name extends OperationName> = Params<Name> & { query?: Part<Name, "query">; body?: Part<Name, "body"> };

/** A request that the server refused: its code, message and request id. */
export class ApiError extends CliError {
  readonly code: string;
  /** The field that was refused, dotted, where the refusal names one, and the rule in words. */
  readonly field: { path: string; bound: string } | undefined;
  constructor(status: number, code: string, message: string, requestId: string | undefined, field?: { path: string; bound: string }) {
    super(exitCodeOfStatus(status), message, `${code}${requestId === undefined ? "" : `, request ${requestId}`}`);
    this.code = code;
    this.field = field;
  }
}

interface ListInput {
  params?: Record<string, string>;
  query?: Record<string, string | number | undefined>;
}

export interface Client {
  readonly connection: Connection;
  /** `signal` gives the call up: it rejects, and the server sees the connection end. */
  call<Name extends OperationName>(name: Name, input: CallInput<Name>, signal?: AbortSignal): Promise<Answer<Operations[Name]>>;
  /** The items of a list, page by page, at most `most`, and the cursor behind them. `field` is the list's name in the answer. */
  list<Item>(name: OperationName, field: string, most: number, input?: ListInput): Promise<{ items: Item[]; nextCursor: string | null }>;
}

/** Longer than the longest poll (20 s). */
const answerWithinMs = 60_000;

/** Whether a call is of the Basaltic door: its path says nothing of the project, which stands in a header. */
const isOfAccount = (name: OperationName): boolean => Object.hasOwn(accountRoutes, name);

function reason(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError") return `no answer within ${answerWithinMs / 1000} s`;
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : undefined;
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "the name is not known";
  return code ?? (cause instanceof Error ? cause.message : error instanceof Error ? error.message : String(error));
}

function problemOf(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as Partial<Problem>;
    if (error !== undefined) {
      const { path, bound, got } = error.details ?? {};
      const field =
        path === undefined || bound === undefined ? undefined : { path, bound: got === undefined ? bound : `${bound}, got ${got}` };
      return new ApiError(status, error.code, error.message, error.requestId, field);
    }
  } catch {
    // not ours: a proxy's page, perhaps
  }
  return new ApiError(status, `HTTP ${status}`, `The server answered ${status}, and not in the form of this product's errors.`, undefined);
}

export function createClient(connection: Connection): Client {
  const request = async (
    method: string,
    path: string,
    body: unknown,
    given: { account?: string; signal?: AbortSignal } = {},
  ): Promise<unknown> => {
    const { account, signal } = given;
    let response: Response;
    let text: string;
    try {
      response = await fetch(connection.url + path, {
        method,
        headers: {
          authorization: `Bearer ${connection.apiKey}`,
          ...(account === undefined ? {} : { "x-account-id": account }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.any([AbortSignal.timeout(answerWithinMs), ...(signal === undefined ? [] : [signal])]),
      });
      text = await response.text();
    } catch (error) {
      throw new CliError(
        exitCode.unreachable,
        `Cannot reach ${connection.url}: ${reason(error)}.`,
        "Start a server with `millrace dev`, or name another with --server or MILLRACE_URL.",
      );
    }
    if (!response.ok) throw problemOf(response.status, text);
    if (text === "") return undefined;
    try {
      return JSON.parse(text);
    } catch {
      throw new CliError(exitCode.failed, `${connection.url} answered something other than JSON.`, "Is it a Millrace server?");
    }
  };

  let place: Promise<{ organizationId: string; projectId: string }> | undefined;
  const only = async (path: string, field: string, flag: string): Promise<string> => {
    const answer = (await request("GET", path, undefined)) as Record<string, unknown>;
    const items = Array.isArray(answer[field]) ? (answer[field] as { name: string }[]) : [];
    const [first] = items;
    if (items.length === 1 && first !== undefined) return first.name;
    const names = items.map(({ name }) => name).join(", ");
    throw new CliError(exitCode.usage, `The key reaches ${items.length === 0 ? "none" : `several ${field} (${names})`}.`, `Give ${flag}.`);
  };
  const findPlace = async () => {
    const organizationId =
      connection.organization ?? (await only("/v1/organizations", "organizations", "--organization or MILLRACE_ORGANIZATION"));
    const projects = `/v1/organizations/${encodeURIComponent(organizationId)}/projects`;
    return { organizationId, projectId: connection.project ?? (await only(projects, "projects", "--project or MILLRACE_PROJECT")) };
  };

  const send = async (
    name: OperationName,
    params: Record<string, unknown>,
    query: object | undefined,
    body: unknown,
    signal?: AbortSignal,
  ): Promise<unknown> => {
    const { method, path } = routes[name];
    place ??= findPlace();
    const found = await place;
    const all: Record<string, unknown> = { ...found, applicationId: found.projectId, ...params };
    const filled = path.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(all[key])));
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(key, String(value));
    const account = isOfAccount(name) ? found.projectId : undefined;
    return request(method, search.size === 0 ? filled : `${filled}?${search}`, body, { account, signal });
  };

  return {
    connection,
    async call(name, input, signal) {
      const { query, body, ...params } = input as { query?: object; body?: unknown };
      return (await send(name, params, query, body, signal)) as Answer<Operations[typeof name]>;
    },
    async list<Item>(name: OperationName, field: string, most: number, { params = {}, query = {} }: ListInput = {}) {
      const items: Item[] = [];
      let nextCursor: string | null = null;
      do {
        const place = isOfAccount(name) ? "marker" : "cursor";
        const page = { ...query, limit: Math.min(most - items.length, 200), [place]: nextCursor ?? undefined };
        const answer = (await send(name, params, page, undefined)) as Record<string, unknown> & { meta?: { marker?: unknown } };
        items.push(...(answer[field] as Item[]));
        const next = answer.nextCursor ?? answer.meta?.marker;
        nextCursor = typeof next === "string" ? next : null;
      } while (nextCursor !== null && items.length < most);
      return { items, nextCursor };
    },
  };
}
