/** What an execution is given to work with, and the words in which steps, transports and the replay core talk to each other. */
import type { BlockedCode, ExecutionAnswer, JournalStep, StepRecord, StepType } from "@millrace/contract/wire";
import type { Halting } from "./signals.ts";

/** What to do about a step that no journal knows. */
export type Plan =
  /** Carried out here: try `attempt` (from 1). Never rejects. */
  | { kind: "work"; perform(attempt: number): Promise<StepRecord> }
  /** Ended by the server. With `eager` its record is sent at once, for the server may have the end already. */
  | { kind: "pending"; record: StepRecord; eager: boolean };

/** Brings the code to a step: its outcome, now or in a later execution. Ids are given out in the order of these calls. */
export type Reach = (type: StepType, name: string, plan: (id: string) => Plan) => Promise<unknown>;

/** What an execution begins with. */
export interface Opening {
  attempt: number;
  cancelled: boolean;
  steps: readonly JournalStep[];
}

/** What an execution needs of the world. */
export interface Host {
  /** Makes records durable, in order; answers the entries of sleeps, waits and children. Rejects with `ExecutionOver`. */
  record(records: readonly StepRecord[]): Promise<readonly JournalStep[]>;
  /** Lets the code run until it waits. */
  turn(): Promise<void>;
  /** The server's present, in milliseconds, as well as it is known: what `retryAt` and `until` are held against. */
  now(): number;
  /** Resolves after `ms`, or as soon as `signal` is aborted. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  /** As `wait` until `signal`, for the patience with code that is busy with something that is no step. */
  patience(ms: number): Promise<void>;
  /** The longest pause before a retry that is waited for here instead of giving the run back, in milliseconds. */
  lingerMs: number;
  /** No step may begin any more: the lease is nearly over, the run was cancelled, the worker stops. */
  closing(): boolean;
  /** Aborted when the execution is lost: nobody wants its answer. */
  signal: Halting;
  /** Aborted when the run is cancelled while it is executed. */
  cancelling?: Halting;
  /** Hears of steps that others ended meanwhile, by their ids. */
  onEnded?(listener: (ids: readonly string[]) => void): void;
}

/** The execution can't go on. With an answer it ends so; without, the server has ended it already. */
export class ExecutionOver extends Error {
  readonly answer: ExecutionAnswer | undefined;
  constructor(message: string, answer?: ExecutionAnswer) {
    super(message);
    this.name = "ExecutionOver";
    this.answer = answer;
  }
}

/** An answer that stops the run until its code is mended. */
export const blocked = (code: BlockedCode, message: string): ExecutionAnswer => ({ status: "blocked", reason: { code, message } });
