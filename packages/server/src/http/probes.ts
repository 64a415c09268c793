/** What operators ask: `/healthz` (the process runs), `/readyz` (the store answers), `/metrics`. No key is needed: nothing here tells of users. */
import type { FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import type { Logger } from "./problem.ts";

/** Adds the probes; answers their routes. */
export function addProbes(
  app: FastifyInstance,
  deps: { ready: () => Promise<boolean>; registry: Registry; logger: Logger },
): { method: string; path: string }[] {
  app.get("/healthz", (_request, reply) => reply.send({ status: "ok" }));
  app.get("/readyz", async (request, reply) => {
    let ready = false;
    try {
      ready = await deps.ready();
    } catch (error) {
      deps.logger.error({ err: error, requestId: request.id }, "the store is not ready");
    }
    if (ready) return reply.send({ status: "ready" });
    return reply.code(503).header("retry-after", "1").send({ status: "unavailable" });
  });
  app.get("/metrics", async (_request, reply) => reply.type(deps.registry.contentType).send(await deps.registry.metrics()));
  return ["/healthz", "/readyz", "/metrics"].map((path) => ({ method: "GET", path }));
}
