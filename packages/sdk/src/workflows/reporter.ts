/**
 * What executions of this process tell their server (W6): the records of many runs travel in one call, one call at a time, so that a
 * busy process costs the server one request and one commit a batch, and records of a run arrive in the order in which they were made.
 * Invariant: an entry resolves when the server has it, or rejects with `ExecutionOver`; what was not answered is sent again unchanged.
 */
import { type ExecutionAnswer, type JournalPage, type JournalStep, protocolVersion, type StepRecord } from "@millrace/contract/wire";
import { ApiError, MillraceError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { messageOf } from "../text.ts";
import { createTransport, retryDelayMs } from "../transport.ts";
import { blocked, ExecutionOver } from "./host.ts";
import { type Bundle, createLine, type Wanted } from "./line.ts";

/** What the server says of one execution. */
interface Said {
  ok: boolean;
  cancelled?: boolean;
  leaseMs?: number;
  ended?: string[];
  steps?: JournalStep[];
  error?: { code: string; message: string };
}

/** The state of an execution, as a record or a heartbeat tells it. */
export interface Standing {
  cancelled: boolean;
  leaseMs: number | undefined;
  /** Steps that others ended, and that the code does not know of. */
  ended: readonly string[];
}

/** Calls of executions to the server that handed them out. */
export interface Reporter {
  /** Makes records durable; answers the entries of pending steps among them. */
  record(token: string, steps: readonly StepRecord[], signal: Wanted): Promise<{ standing: Standing; steps: JournalStep[] }>;
  /** Ends an execution. */
  end(token: string, answer: ExecutionAnswer, signal: Wanted): Promise<void>;
  /** Keeps an execution's lease. */
  beat(token: string, signal: Wanted): Promise<Standing>;
  /** Asks what happened meanwhile, and keeps nothing. */
  look(token: string, signal: Wanted): Promise<Standing>;
  /** A page of the journal. */
  page(token: string, after: string): Promise<JournalPage>;
}

/** A server that is busy is asked again after this at the latest. */
const longestPauseMs = 30_000;

/** What an execution is to do about an error of its own. */
function overBy({ code, message }: { code: string; message: string }): ExecutionOver {
  if (code === "nondeterminism") return new ExecutionOver(message, blocked("nondeterminism", message));
  if (code === "invalid_request") return new ExecutionOver(message, { status: "failed", error: { code, name: "Error", message } });
  return new ExecutionOver(`${code}: ${message}`);
}

/** What is said of an execution, unless it is a refusal. */
function accepted(said: Said | undefined): Said {
  if (said?.ok === true) return said;
  throw overBy(said?.error ?? { code: "invalid_answer", message: "the server left it out" });
}

/** What executions make of a call that came to nothing. */
const refusal = (error: unknown): ExecutionOver =>
  overBy({ code: error instanceof ApiError ? error.code : "unreachable", message: messageOf(error) });

const standing = ({ cancelled, leaseMs, ended = [] }: Said): Standing => ({ cancelled: cancelled === true, leaseMs, ended });

/** Makes the calls of one process to one server. `callbackUrl` is the tasks' own. */
export function createReporter(callbackUrl: string, buildId: string, runtime: Runtime): Reporter {
  const transport = createTransport({
    url: callbackUrl,
    authorizer: { header: async () => "", refused: () => false },
    timeoutMs: 30_000,
    maxRetries: 0,
    runtime,
  });

  /** Sends the same until there is an answer, or nobody waits for one any more. */
  const call = async (path: string, fields: string, isWanted: () => boolean): Promise<Said[]> => {
    const json = `{"protocol":"${protocolVersion}",${fields}}`;
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await transport({ method: "POST", path, json, repeat: "failed" });
        return (answer as { executions?: Said[] } | undefined)?.executions ?? [];
      } catch (error) {
        const known = error instanceof ApiError ? error : undefined;
        const mayPass = known === undefined ? error instanceof MillraceError && error.retryable : known.retryable || known.status >= 500;
        if (!mayPass || !isWanted()) throw error;
        await runtime.wait(Math.max(Math.min(known?.retryAfterMs ?? 0, longestPauseMs), retryDelayMs(tries, runtime.random())));
      }
    }
  };

  // Items travel as the texts that they were measured by.
  const executions = (bundles: readonly Bundle[], field: string, join: (texts: readonly string[]) => string): string =>
    `"executions":[${bundles.map(({ token, texts }) => `{"token":${JSON.stringify(token)},"${field}":${join(texts)}}`).join(",")}]`;
  const joined = (lists: readonly string[]): string =>
    lists.length === 1 ? (lists[0] as string) : `[${lists.map((list) => list.slice(1, -1)).join(",")}]`;
  const steps = createLine<readonly StepRecord[], Said>(
    3 * 1024 * 1024,
    (bundles, isWanted) => call("/steps", executions(bundles, "steps", joined), isWanted),
    refusal,
  );
  const ends = createLine<ExecutionAnswer, Said>(
    8 * 1024 * 1024,
    (bundles, isWanted) =>
      call("/end", `"buildId":${JSON.stringify(buildId)},${executions(bundles, "answer", ([answer]) => answer as string)}`, isWanted),
    refusal,
  );
  const heartbeats = (extend: boolean) => {
    const line = createLine<null, Said>(
      Number.POSITIVE_INFINITY,
      (bundles, isWanted) =>
        call("/heartbeat", `"extend":${extend},"tokens":${JSON.stringify(bundles.map(({ token }) => token))}`, isWanted),
      refusal,
    );
    return async (token: string, signal: Wanted) => standing(accepted(await line({ token, item: null, count: 1, joins: false, signal })));
  };

  return {
    async record(token, records, signal) {
      // The server numbers ends in the order of a call: only steps that were carried out here keep it when they are put together.
      const joins = records.every(({ status }) => status !== "pending");
      const said = accepted(await steps({ token, item: records, count: records.length, joins, signal }));
      const entries = said.steps ?? [];
      const isAsked = ({ id }: JournalStep) => records.some((each) => each.id === id);
      return { standing: standing(said), steps: entries.filter(isAsked) };
    },
    async end(token, answer, signal) {
      accepted(await ends({ token, item: answer, count: 1, joins: false, signal }));
    },
    look: heartbeats(false),
    beat: heartbeats(true),
    async page(token, after) {
      const body = { protocol: protocolVersion, token, after };
      return (await transport({ method: "POST", path: "/journal", body, repeat: "failed" })) as JournalPage;
    },
  };
}
