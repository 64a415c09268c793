/**
 * The calls with which executions report (docs/protocol.md): their tokens prove everything, so there is no API key. A call is read, held
 * against its shape and handed on; one execution's refusal is its entry's, never the whole call's.
 */
import { workflowProtocol } from "@millrace/contract";
import { protocolVersion } from "@millrace/contract/wire";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Executions } from "../workflow/executions.ts";
import { readJson } from "./json-text.ts";
import { type Load, UNTOLD_BYTES } from "./load.ts";
import { validate } from "./validate.ts";

/** Where executors report, below the server's address. */
export const EXECUTION_CALLS = "/v1/workflow-executions";

const MiB = 1024 * 1024;
const { executionCalls } = workflowProtocol;
const NO_BYTES = new Uint8Array(0);

/** Adds the routes; answers them. */
export function addExecutionCalls(
  app: FastifyInstance,
  { executions, load }: { executions: Executions; load: Load },
): { method: string; path: string }[] {
  const routes: { method: string; path: string }[] = [];
  const add = <Shape extends z.ZodType>(
    name: string,
    bodyLimit: number,
    shape: Shape,
    call: (body: z.output<Shape>) => Promise<object>,
  ): void => {
    const path = `${EXECUTION_CALLS}/${name}`;
    routes.push({ method: "POST", path });
    app.post(path, {
      bodyLimit,
      onRequest: (request, reply, done) => {
        const bytes = Math.min(announced(request, bodyLimit), bodyLimit);
        try {
          load.enter(bytes);
        } catch (error) {
          done(error as Error);
          return;
        }
        reply.raw.once("close", () => load.leave(bytes));
        done();
      },
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const body = readJson(request.body instanceof Uint8Array ? request.body : NO_BYTES);
        const answer = await call(validate(shape, body, "body"));
        return reply.type("application/json; charset=utf-8").send(JSON.stringify({ protocol: protocolVersion, ...answer }));
      },
    });
  };

  add("steps", 4 * MiB, executionCalls.steps, async (body) => ({ executions: await executions.steps(body.protocol, body.executions) }));
  add("heartbeat", MiB, executionCalls.heartbeat, async ({ tokens, extend = true }) => ({
    executions: await executions.heartbeat(tokens, extend),
  }));
  add("journal", 16 * 1024, executionCalls.journal, ({ token, after }) => executions.journal(token, after));
  add("end", 12 * MiB, executionCalls.end, async (body) => ({ executions: await executions.end(body.protocol, body.executions) }));
  return routes;
}

/** The length of the body that a request announces; one that is refused for its length is never read. */
function announced({ headers }: FastifyRequest, limit: number): number {
  const length = headers["content-length"];
  if (length === undefined) return headers["transfer-encoding"] === undefined ? 0 : UNTOLD_BYTES;
  return Number(length) > limit ? 0 : Number(length);
}
