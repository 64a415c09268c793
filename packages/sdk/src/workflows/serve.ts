/**
 * A push app as a function from `Request` to `Response` (W6). Nothing of a request is believed before its signature was checked, and
 * whatever becomes of a run is an answer: a status other than 200 only says that the request itself was no good.
 */
import { type ExecutionAnswer, protocolVersion, type SyncRequest, type Task } from "@millrace/contract/wire";
import { variable } from "../environment.ts";
import type { PushHandler } from "../handler.ts";
import { type NodeHandler, toNodeHandler as wrap } from "../node-handler.ts";
import { type PlainAnswer, type PlainCall, refusal, responseOf, withPlain } from "../plain.ts";
import { readBody } from "../request-body.ts";
import { platform, type Runtime } from "../runtime.ts";
import { type Secrets, verifyPushSignature } from "../signature.ts";
import { announcementOf } from "./announce.ts";
import { createCallbacks } from "./callbacks.ts";
import { Halt } from "./signals.ts";
import { runTask } from "./task.ts";
import { type AnyWorkflow, byName } from "./workflow.ts";

/** How an app is served. */
export interface ServeOptions {
  /** The app's signing secret, or two while one takes over from the other; `MILLRACE_WORKFLOWS_SIGNING_SECRET` (with a comma) unless given. */
  signingSecret?: Secrets;
  /** Takes requests without a signature. For development only. */
  allowUnsigned?: boolean;
  /** Names the deployed code, and must change with it; `MILLRACE_BUILD_ID`, else made of the functions' texts, `timeout` and `concurrency`. */
  buildId?: string;
  /** Network, time and chance, for tests. */
  runtime?: Partial<Runtime>;
}

/** A journal of 4 MiB inside of JSON, an input, and room for what JSON makes of them. */
const maxTaskBytes = 32 * 1024 * 1024;
/** What a server reads of an answer; what is longer is reported by a call of its own. */
const maxAnswerBytes = 1024 * 1024;

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

const json = (body: string): PlainAnswer => ({ status: 200, headers: { "content-type": "application/json" }, body });
/** The secrets that are given, else those of the environment. A variable that is not set gives an empty one, which is none. */
const secretsOf = (given: Secrets | undefined): string[] =>
  [given ?? (variable("MILLRACE_WORKFLOWS_SIGNING_SECRET") ?? "").split(",")]
    .flat()
    .map((secret) => secret.trim())
    .filter((secret) => secret !== "");

/** Serves workflows: the route handler of a push app. Throws a `RangeError` when two workflows have one name. */
export function serve(workflows: readonly AnyWorkflow[], options: ServeOptions = {}): PushHandler {
  const runtime: Runtime = { ...platform, ...options.runtime };
  const named = byName(workflows);
  const announced = announcementOf(workflows, options.buildId);
  const callbacks = announced.then(({ buildId }) => createCallbacks(buildId, runtime));

  /** The body of a genuine call, or the refusal. */
  const admit = async ({ header, body }: PlainCall): Promise<Uint8Array | PlainAnswer> => {
    const secret = secretsOf(options.signingSecret);
    if (secret.length === 0 && options.allowUnsigned !== true) {
      console.error(
        "workflows: no signing secret, so every request is refused. Set MILLRACE_WORKFLOWS_SIGNING_SECRET, or pass signingSecret; allowUnsigned: true is for development only.",
      );
      return refusal(500, "no signing secret is configured");
    }
    if (body === undefined) return refusal(413, `the body must have at most ${maxTaskBytes} bytes`);
    const signature = header("ezgh-signature");
    if (signature === null && options.allowUnsigned === true) return body;
    const genuine = await verifyPushSignature(signature, { secret, body, now: runtime.now() });
    return genuine ? body : refusal(401, "the signature is missing or not valid");
  };

  const answerTo = async (task: Task, buildId: string, lost: Halt): Promise<string> => {
    const startedAt = runtime.now();
    const callback = (await callbacks)(task.callbackUrl);
    // A step begun in the first half of the lease has the other half to end in.
    const closing = () => runtime.now() - startedAt > task.leaseMs / 2;
    const moved = await runTask(task, { workflows: named, callback, runtime, lost, closing });
    const answer: ExecutionAnswer | { status: "ended" } = moved ?? { status: "ended" };
    const text = JSON.stringify({ protocol: protocolVersion, buildId, ...answer });
    // A UTF-16 unit takes three bytes at most: most answers are known to fit without being encoded.
    const fits = text.length * 3 <= maxAnswerBytes || new TextEncoder().encode(text).length <= maxAnswerBytes;
    if (answer.status === "ended" || fits) return text;
    await callback.reporter.end(task.token, answer, lost).catch((error: unknown) => console.error(`workflows: ${String(error)}`));
    return JSON.stringify({ protocol: protocolVersion, buildId, status: "ended" });
  };

  const answer = async (given: PlainCall): Promise<PlainAnswer> => {
    const body = await admit(given);
    if (!(body instanceof Uint8Array)) return body;
    let call: Partial<Task> | Partial<SyncRequest>;
    try {
      call = JSON.parse(strictUtf8.decode(body)) as typeof call;
    } catch {
      return refusal(400, "the body is no JSON");
    }
    const announcement = await announced;
    if (call.type === "sync") return json(JSON.stringify(announcement));
    if (call.type !== "execute") return refusal(400, "type: must be sync or execute");
    const lost = new Halt();
    given.onGone(() => lost.abort());
    return json(await answerTo(call as Task, announcement.buildId, lost));
  };
  const handler: PushHandler = async (request) =>
    responseOf(
      await answer({
        header: (name) => request.headers.get(name),
        body: await readBody(request, maxTaskBytes),
        onGone: (listener) => request.signal.addEventListener("abort", listener, { once: true }),
      }),
    );
  return withPlain(handler, answer);
}

/** Serves a push app from `node:http`, Express or Fastify, which must leave the raw body. */
export const toNodeHandler = (handler: PushHandler): NodeHandler => wrap(handler, maxTaskBytes);
