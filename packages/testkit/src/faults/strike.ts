/** One fault loop: load, a strike after a random number of answers, recovery, and again; then the history is checked. */
import { checkHistory, type HistoryEvent, type Violation } from "../history.ts";
import { chance } from "./chance.ts";
import { type Load, load, maxConcurrency } from "./load.ts";

/** What to strike, how and how often. */
export interface Strikes {
  server: { url: string; readonly apiKey: string };
  rounds: number;
  seed: number;
  /** Strikes and brings everything back up. */
  strike(round: number, random: () => number): Promise<void>;
  /** Calls wait during a strike (the server is gone), or keep coming (only its database is). */
  callsDuring: boolean;
  /** Whether receive counts outlive the strike: a power cut may take a claim back. */
  countsSurvive: boolean;
  waitForPushes: boolean;
}

/** What came of it. */
export interface Struck {
  violations: Violation[];
  oddities: readonly string[];
  /** Sends that were answered. */
  answered: number;
  refused: ReadonlyMap<number, number>;
}

/** Runs the loop on a server that is up and empty. */
export async function struck(options: Strikes): Promise<Struck> {
  const random = chance(options.seed);
  const running: Load = await load(options.server, random, { countsSurvive: options.countsSurvive });
  try {
    for (let round = 1; round <= options.rounds; round++) {
      await running.advanced(20 + Math.floor(random() * 100));
      if (!options.callsDuring) running.pause();
      await options.strike(round, random);
      running.resume();
    }
    await running.advanced(50);
    await running.finish({ waitForPushes: options.waitForPushes });
  } catch (error) {
    await running.stop().catch(() => {});
    throw new Error(`seed ${options.seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  const outcome: Struck = {
    violations: checkHistory(running.history, { limits: { pushed: maxConcurrency } }),
    oddities: running.oddities,
    answered: running.history.filter(({ kind }) => kind === "sendAnswered").length,
    refused: running.refused,
  };
  console.info(told(options.rounds, running.history, outcome));
  return outcome;
}

/** What was held against the promises, in figures: a run without violations says little without them. */
function told(strikes: number, history: readonly HistoryEvent[], { violations, oddities, answered, refused }: Struck): string {
  const many = (of: (event: HistoryEvent) => boolean): number => history.filter(of).length;
  const accepted = many((event) => event.kind === "ackAnswered" && event.accepted);
  const errors = [...refused].map(([status, n]) => `${n} times ${status}`).join(", ");
  return [
    `${strikes} strikes: ${answered} sends answered`,
    `${many(({ kind }) => kind === "handedOut")} messages handed out`,
    `${accepted} acknowledgements accepted`,
    `${many(({ kind }) => kind === "endpointAccepted")} pushed`,
    `refused ${errors || "nothing"}`,
    `${violations.length} violations, ${oddities.length} oddities`,
  ].join("; ");
}

/** How often to strike: the variable `MILLRACE_TEST_STRIKES` times the usual number; long runs set it high. */
export const rounds = (usual: number): number => Math.max(1, Math.round(usual * Number(process.env.MILLRACE_TEST_STRIKES ?? 1)));
