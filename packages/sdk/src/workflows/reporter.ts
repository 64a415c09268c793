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
import { blocked, ExecutionOver } from "./execution.ts";

/** What the server says of one execution. */
interface Said {
  ok: boolean;
  cancelled?: boolean;
  leaseMs?: number;
  steps?: JournalStep[];
  error?: { code: string; message: string };
}

/** The state of an execution, as a record or a heartbeat tells it. */
export interface Standing {
  cancelled: boolean;
  leaseMs: number | undefined;
}

/** Calls of executions to the server that handed them out. */
export interface Reporter {
  /** Makes records durable; answers the entries of pending steps among them. */
  record(token: string, steps: readonly StepRecord[], signal: AbortSignal): Promise<{ standing: Standing; steps: JournalStep[] }>;
  /** Ends an execution. */
  end(token: string, answer: ExecutionAnswer, signal: AbortSignal): Promise<void>;
  /** Keeps an execution's lease. */
  beat(token: string, signal: AbortSignal): Promise<Standing>;
  /** A page of the journal. */
  page(token: string, after: string): Promise<JournalPage>;
}

interface Waiting {
  token: string;
  item: unknown;
  bytes: number;
  count: number;
  signal: AbortSignal;
  resolve(said: Said): void;
  reject(error: unknown): void;
}

const maxExecutions = 100;
const maxSteps = 1000;
const utf8 = new TextEncoder();

/** What an execution is to do about an error of its own. */
function overBy({ code, message }: { code: string; message: string }): ExecutionOver {
  if (code === "nondeterminism") return new ExecutionOver(message, blocked("nondeterminism", message));
  if (code === "invalid_request") return new ExecutionOver(message, { status: "failed", error: { code, name: "Error", message } });
  return new ExecutionOver(`${code}: ${message}`);
}

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
  const call = async (path: string, body: object, signals: readonly AbortSignal[]): Promise<Said[]> => {
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await transport({ method: "POST", path, body: { protocol: protocolVersion, ...body }, repeat: "failed" });
        return (answer as { executions?: Said[] } | undefined)?.executions ?? [];
      } catch (error) {
        const known = error instanceof ApiError ? error : undefined;
        const mayPass = known === undefined ? error instanceof MillraceError && error.retryable : known.retryable || known.status >= 500;
        if (!mayPass || signals.every(({ aborted }) => aborted)) throw error;
        const pauseMs = Math.max(known?.retryAfterMs ?? 0, retryDelayMs(tries, runtime.random()));
        await runtime.wait(pauseMs, AbortSignal.any([...signals]));
      }
    }
  };

  /** A line of entries of one kind, of which as many travel together as a call may have. */
  const line = (path: string, maxBytes: number, bodyOf: (batch: readonly Waiting[]) => object) => {
    const waiting: Waiting[] = [];
    let busy = false;

    const take = (): Waiting[] => {
      const batch: Waiting[] = [];
      let bytes = 0;
      let count = 0;
      for (const next of waiting) {
        bytes += next.bytes;
        count += next.count;
        if (batch.length > 0 && (batch.length === maxExecutions || count > maxSteps || bytes > maxBytes)) break;
        batch.push(next);
      }
      return waiting.splice(0, batch.length);
    };
    const run = async (): Promise<void> => {
      busy = true;
      // What is asked for in the same moment travels together.
      await Promise.resolve();
      for (let batch = take(); batch.length > 0; batch = take()) {
        try {
          const said = await call(
            path,
            bodyOf(batch),
            batch.map(({ signal }) => signal),
          );
          for (const [index, each] of batch.entries()) {
            const answer = said[index] ?? { ok: false, error: { code: "invalid_answer", message: "the server left it out" } };
            if (answer.ok) each.resolve(answer);
            else each.reject(overBy(answer.error ?? { code: "internal", message: "no reason was given" }));
          }
        } catch (error) {
          const code = error instanceof ApiError ? error.code : "unreachable";
          for (const each of batch) each.reject(overBy({ code, message: messageOf(error) }));
        }
      }
      busy = false;
    };
    return (token: string, item: unknown, count: number, signal: AbortSignal): Promise<Said> =>
      new Promise((resolve, reject) => {
        waiting.push({ token, item, bytes: utf8.encode(JSON.stringify(item) ?? "").length, count, signal, resolve, reject });
        if (!busy) void run();
      });
  };

  const steps = line("/steps", 3 * 1024 * 1024, (batch) => ({ executions: batch.map(({ token, item }) => ({ token, steps: item })) }));
  const ends = line("/end", 8 * 1024 * 1024, (batch) => ({
    buildId,
    executions: batch.map(({ token, item }) => ({ token, answer: item })),
  }));
  const beats = line("/heartbeat", Number.POSITIVE_INFINITY, (batch) => ({ tokens: batch.map(({ token }) => token) }));
  const standing = ({ cancelled, leaseMs }: Said): Standing => ({ cancelled: cancelled === true, leaseMs });

  return {
    async record(token, records, signal) {
      const said = await steps(token, records, records.length, signal);
      return { standing: standing(said), steps: said.steps ?? [] };
    },
    async end(token, answer, signal) {
      await ends(token, answer, 1, signal);
    },
    beat: async (token, signal) => standing(await beats(token, null, 1, signal)),
    async page(token, after) {
      const body = { protocol: protocolVersion, token, after };
      return (await transport({ method: "POST", path: "/journal", body, repeat: "failed" })) as JournalPage;
    },
  };
}
