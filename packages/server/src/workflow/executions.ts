/**
 * Executions as both transports know them (W6): begun from claimed wake-ups, reported on and ended. All of it is coalesced over the runs
 * of this process, so that many steps cost one commit. Nothing is kept here: the store knows who executes what.
 */
import { Fault } from "@millrace/contract";
import {
  type ExecutionAnswer,
  type JournalPage,
  type JournalStep,
  protocolLimits,
  type StepRecord,
  speaks,
  type Task,
} from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Vault } from "../identity/vault.ts";
import { isPlainEnd } from "../store/complete-runs.ts";
import type { Begun, WakeUp } from "../store/execution.ts";
import { isPlain, isTaken } from "../store/record-ended.ts";
import type { EndReport, Refusal, StepsReport, StepsResult } from "../store/report.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { coalesce } from "./coalesce.ts";
import { journalPage, journalStep, taskOf } from "./task.ts";
import { createTokens, type ExecutionToken } from "./token.ts";

/** How long a pull executor has until its next heartbeat. */
export const PULL_LEASE_MS = 30_000;

/** An entry's refusal, in the words of the protocol. */
export interface RefusedEntry {
  ok: false;
  error: { code: Refusal["code"] | "unauthorized"; message: string };
}
export type StepsEntry = { ok: true; cancelled: boolean; steps: JournalStep[] } | RefusedEntry;
export type EndEntry = { ok: true } | RefusedEntry;
export type HeartbeatEntry = { ok: true; cancelled: boolean; ended: string[]; leaseMs: number } | RefusedEntry;

/** What a task is made of besides the run. */
export interface Handing {
  appId: string;
  leaseMs: number;
}

export interface Executions {
  /** Begins the execution that a claimed wake-up asks for; `null`: there is nothing to do, and the wake-up is acknowledged. */
  begin(queueNo: number, message: ClaimedMessage, handing: Handing): Promise<Task | null>;
  /** As `begin` for a worker that has these workflows; what it does not have is given back. `full`: so is what finds no place in its app. */
  beginPulled(queueNo: number, message: ClaimedMessage, handing: Handing, workflows: readonly string[]): Promise<Task | "full" | null>;
  /** Called with the queue of wake-ups of every execution that ends here. */
  onEnd(listener: (queueNo: number) => void): void;
  /** Records steps, one entry per execution, in order. Throws `protocol_unsupported`. */
  steps(protocol: string, executions: readonly { token: string; steps: StepRecord[] }[]): Promise<StepsEntry[]>;
  /** Ends executions, one entry each, in order. Throws `protocol_unsupported`. */
  end(protocol: string, executions: readonly { token: string; answer: ExecutionAnswer }[]): Promise<EndEntry[]>;
  /** Hears of cancellations and of steps that others ended; `extend`: and tells that executions are alive. */
  heartbeat(tokens: readonly string[], extend: boolean): Promise<HeartbeatEntry[]>;
  /** A further page of a journal. Throws `unauthorized`, `stale_execution`. */
  journal(token: string, after: string): Promise<JournalPage>;
}

const TIMER = Buffer.from('{"why":"timer"}');
/** What wake-ups say of themselves. */
const isTimer = (body: Uint8Array): boolean => TIMER.equals(body);

const unauthorized = (): RefusedEntry => ({ ok: false, error: { code: "unauthorized", message: "the token is not one of this server's" } });

/** Where one repeats what is recorded, for its answer was lost, all of them are recorded the other way. */
function leftBy(error: unknown, reports: readonly StepsReport[]): null[] {
  if (!isTaken(error)) throw error;
  return reports.map(() => null);
}

/** Makes the executions of a server. `callbackUrl` is where executors report: known once the server listens. */
export function createExecutions(deps: { store: Store; vault: Pick<Vault, "sign" | "verify">; callbackUrl: () => string }): Executions {
  const { store } = deps;
  const tokens = createTokens(deps.vault);
  const width = store.engine === "postgres" ? 4 : 1;
  const beginning = (atOnce: number) =>
    coalesce<WakeUp, Begun | "full" | null>((wakeUps) => store.run("beginExecutions", wakeUps, protocolLimits.inlineBytes), {
      most: 100,
      width: atOnce,
    });
  const begin = beginning(width);
  // Those of one app would wait for each other in the database.
  const beginPulled = beginning(1);
  const recordAny = coalesce<StepsReport, StepsResult>((reports) => store.run("recordReports", reports), { most: 100, width });
  const recordEnded = coalesce<StepsReport, StepsResult | null>(
    (reports) => store.run("recordEnded", reports).catch((error) => leftBy(error, reports)),
    { most: 100, width },
  );
  const record = async (report: StepsReport): Promise<StepsResult> =>
    (isPlain(report) ? await recordEnded(report) : null) ?? recordAny(report);
  const endAny = coalesce<EndReport, { error: Refusal } | null>((reports) => store.run("endExecutions", reports), { most: 100, width });
  const complete = coalesce<EndReport, boolean>((reports) => store.run("completeRuns", reports), { most: 100, width });
  const end = async (report: EndReport): Promise<{ error: Refusal } | null> =>
    isPlainEnd(report) && (await complete(report)) ? null : endAny(report);

  const demand = (protocol: string): void => {
    if (!speaks(protocol)) throw new Fault("protocol_unsupported", `protocol ${protocol} is not spoken here; 1.2 is`);
  };
  /** Asks for every entry whose token is genuine. What the store refuses as a whole is that entry's refusal. */
  const each = <Item extends { token: string }, Entry>(
    items: readonly Item[],
    ask: (token: ExecutionToken, item: Item) => Promise<Entry | RefusedEntry>,
  ): Promise<(Entry | RefusedEntry)[]> =>
    Promise.all(
      items.map(async (item) => {
        const token = tokens.read(item.token);
        if (token === null) return unauthorized();
        try {
          return await ask(token, item);
        } catch (error) {
          if (!(error instanceof Fault) || error.code !== "stale_execution") throw error;
          return { ok: false as const, error: { code: "stale_execution" as const, message: error.message } };
        }
      }),
    );

  const listeners: ((queueNo: number) => void)[] = [];
  const wakeUpOf = (queueNo: number, { seq, receipt, groupKey, body }: ClaimedMessage): WakeUp => ({
    ...{ queueNo, seq, receipt },
    runId: groupKey ?? "",
    timer: isTimer(body),
  });
  const handOut = (begun: Begun, { queueNo, seq, receipt }: WakeUp, { appId, leaseMs }: Handing, pull: boolean): Task => {
    const handout = { runNo: begun.run.no, queueNo, seq, receipt };
    const token = tokens.write({ handout, told: begun.run.cancelAt !== null, pull });
    return taskOf(begun, { executionId: uuidv7(), token, callbackUrl: deps.callbackUrl(), leaseMs, appId });
  };

  return {
    async begin(queueNo, message, handing) {
      const wakeUp = wakeUpOf(queueNo, message);
      const begun = await begin(wakeUp);
      return begun === null || begun === "full" ? null : handOut(begun, wakeUp, handing, false);
    },

    async beginPulled(queueNo, message, handing, workflows) {
      const wakeUp = { ...wakeUpOf(queueNo, message), puller: { workflows } };
      const begun = await beginPulled(wakeUp);
      return begun === null || begun === "full" ? begun : handOut(begun, wakeUp, handing, true);
    },

    onEnd: (listener) => void listeners.push(listener),

    async steps(protocol, executions) {
      demand(protocol);
      return each(executions, async ({ handout }, { steps }): Promise<StepsEntry> => {
        const result = await record({ handout, protocol, steps });
        if ("error" in result) return { ok: false, error: result.error };
        return { ok: true, cancelled: result.cancelled, steps: result.steps.map(journalStep) };
      });
    },

    async end(protocol, executions) {
      demand(protocol);
      return each(executions, async ({ handout, told }, { answer }): Promise<EndEntry> => {
        const refused = await end({ handout, protocol, told, answer });
        for (const listener of listeners) listener(handout.queueNo);
        return refused === null ? { ok: true } : { ok: false, error: refused.error };
      });
    },

    async heartbeat(given, extend) {
      const read = given.map(tokens.read);
      const known = read.filter((token) => token !== null);
      if (known.length === 0) return given.map(unauthorized);
      const pulled = known.filter(({ pull }) => pull && extend);
      const extended = await store.settle(
        pulled.map(({ handout: { queueNo, seq, receipt } }) => ({ queueNo, seq, receipt, outcome: "extend", delayMs: PULL_LEASE_MS })),
      );
      const lost = new Set(pulled.filter((_, i) => extended[i]?.result !== "extended"));
      const looks = await store.run(
        "lookAtExecutions",
        known.map(({ handout }) => handout),
      );
      const found = new Map(known.map((token, i) => [token, looks[i] ?? null]));
      return read.map((token): HeartbeatEntry => {
        if (token === null) return unauthorized();
        const look = lost.has(token) ? null : found.get(token);
        if (look == null)
          return { ok: false, error: { code: "stale_execution", message: "the run has ended or was handed to another execution" } };
        return { ok: true, ...look, leaseMs: PULL_LEASE_MS };
      });
    },

    async journal(token, after) {
      const read = tokens.read(token);
      if (read === null) throw new Fault("unauthorized", "the token is not one of this server's");
      return journalPage(await store.run("readExecution", read.handout, Number(after), protocolLimits.inlineBytes));
    },
  };
}
