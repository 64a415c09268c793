/** The ids of runs that messages start (W12): made of project, queue and message, so that a message reaches the same run again. */
import { derivedId } from "../store/derived-id.ts";

/** The id of the run that a message starts. The three are ids as texts, each ended by a line feed. */
export const runIdOf = (projectId: string, queueId: string, messageId: string): string =>
  derivedId(`${projectId}\n${queueId}\n${messageId}\n`);
