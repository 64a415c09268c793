/**
 * A push app as a function from `Request` to `Response` (W6). Nothing of a request is believed before its signature was checked, and
 * whatever becomes of a run is an answer: a status other than 200 only says that the request itself was no good.
 */
import { type ExecutionAnswer, protocolVersion, type SyncRequest, type Task } from "@millrace/contract/wire";
import { variable } from "../environment.ts";
import type { PushHandler } from "../handler.ts";
import { type NodeHandler, toNodeHandler as wrap } from "../node-handler.ts";
import { readBody, refuse } from "../request-body.ts";
import { platform, type Runtime } from "../runtime.ts";
import { type Secrets, verifyPushSignature } from "../signature.ts";
import { announcementOf } from "./announce.ts";
import { createCallbacks } from "./callbacks.ts";
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

  const admit = async (request: Request): Promise<Uint8Array | Response> => {
    const secret = secretsOf(options.signingSecret);
    if (secret.length === 0 && options.allowUnsigned !== true) {
      console.error(
        "workflows: no signing secret, so every request is refused. Set MILLRACE_WORKFLOWS_SIGNING_SECRET, or pass signingSecret; allowUnsigned: true is for development only.",
      );
      return refuse(500, "no signing secret is configured");
    }
    const body = await readBody(request, maxTaskBytes);
    if (body === undefined) return refuse(413, `the body must have at most ${maxTaskBytes} bytes`);
    const header = request.headers.get("ezgh-signature");
    if (header === null && options.allowUnsigned === true) return body;
    const genuine = await verifyPushSignature(header, { secret, body, now: runtime.now() });
    return genuine ? body : refuse(401, "the signature is missing or not valid");
  };

  const answerTo = async (task: Task, buildId: string, lost: AbortController): Promise<string> => {
    const startedAt = runtime.now();
    const callback = (await callbacks)(task.callbackUrl);
    // A step begun in the first half of the lease has the other half to end in.
    const closing = () => runtime.now() - startedAt > task.leaseMs / 2;
    const moved = await runTask(task, { workflows: named, callback, runtime, lost, closing });
    const answer: ExecutionAnswer | { status: "ended" } = moved ?? { status: "ended" };
    const text = JSON.stringify({ protocol: protocolVersion, buildId, ...answer });
    if (answer.status === "ended" || new TextEncoder().encode(text).length <= maxAnswerBytes) return text;
    await callback.reporter.end(task.token, answer, lost.signal).catch((error: unknown) => console.error(`workflows: ${String(error)}`));
    return JSON.stringify({ protocol: protocolVersion, buildId, status: "ended" });
  };

  return async (request) => {
    const body = await admit(request);
    if (body instanceof Response) return body;
    let call: Partial<Task> | Partial<SyncRequest>;
    try {
      call = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as typeof call;
    } catch {
      return refuse(400, "the body is no JSON");
    }
    const announcement = await announced;
    const headers = { "content-type": "application/json" };
    if (call.type === "sync") return new Response(JSON.stringify(announcement), { headers });
    if (call.type !== "execute") return refuse(400, "type: must be sync or execute");
    const lost = new AbortController();
    request.signal.addEventListener("abort", () => lost.abort(), { once: true });
    return new Response(await answerTo(call as Task, announcement.buildId, lost), { headers });
  };
}

/** Serves a push app from `node:http`, Express or Fastify, which must leave the raw body. */
export const toNodeHandler = (handler: PushHandler): NodeHandler => wrap(handler, maxTaskBytes);
