/** A server that says what a test tells it to, and a client whose waits end at once: real HTTP, no real time. */
import { type AnswerFunction, type ReceivedRequest, type Receiver, receiver } from "@millrace/testkit";
import { Millrace, type MillraceOptions } from "./index.ts";

export interface Scripted {
  server: Receiver;
  client: Millrace;
  /** What was waited for between tries, in milliseconds. */
  waits: number[];
  close(): Promise<void>;
}

/** An answer with a JSON body. */
export const json = (value: unknown, status = 200, headers: Record<string, string> = {}) => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(value),
});

/** A refusal as the server writes it. */
export const problem = (status: number, code: string, headers?: Record<string, string>) =>
  json({ error: { code, message: `no: ${code}`, requestId: "req_1", details: { path: "x" } } }, status, headers);

/** One answer after the other; the last one stands. */
export function inTurn(...answers: (ReturnType<typeof json> | ReturnType<AnswerFunction>)[]): AnswerFunction {
  let at = 0;
  return () => answers[Math.min(at++, answers.length - 1)] as ReturnType<AnswerFunction>;
}

export async function scripted(answer: AnswerFunction, options: Partial<MillraceOptions> = {}): Promise<Scripted> {
  const server = await receiver({ answer });
  const waits: number[] = [];
  let ids = 0;
  const runtime = {
    wait: async (ms: number) => void waits.push(ms),
    random: () => 1,
    uuid: () => `key-${++ids}`,
    ...options.runtime,
  };
  const client = new Millrace({ url: server.url, apiKey: "mlr_key", project: "shop", ...options, runtime });
  return { server, client, waits, close: () => server.close() };
}

export const header = (request: ReceivedRequest | undefined, name: string): unknown => request?.headers[name];
