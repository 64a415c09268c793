/** One fault loop on topics: publications, kill -9 after a random number of answers, restart, and again; then everything is counted. */
import { chance, seed } from "./chance.ts";
import type { MillraceProcess } from "./millrace-process.ts";
import { type TopicViolation, topicLoad } from "./topic-load.ts";

/** Runs the loop on a server that is up and empty. `waitMs`: how long deliveries may take after the last kill. */
export async function topicsKilled(
  server: MillraceProcess,
  rounds: number,
  waitMs: number,
): Promise<{ violations: TopicViolation[]; answered: number }> {
  const number = seed();
  const random = chance(number);
  const load = await topicLoad(server);
  try {
    for (let round = 0; round < rounds; round++) {
      await load.advanced(5 + Math.floor(random() * 60));
      load.pause();
      await server.kill("SIGKILL");
      await server.start({ MILLRACE_TEST_PLANT: "1" });
      load.resume();
    }
    await load.advanced(20);
    return { violations: await load.finish(waitMs), answered: load.published.length };
  } catch (error) {
    await load.stop().catch(() => {});
    throw new Error(`seed ${number}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}
