/**
 * `POST /dev/clock/advance` (P26): moves the virtual clock of a dev server forward, and with it leases, retries, delays and retention.
 * It takes no key: it exists only where somebody asked for a virtual clock, on the loopback interface.
 */
import { invalid } from "@millrace/contract";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { VirtualClock } from "../clock.ts";
import { readJson } from "./json-text.ts";
import { validate } from "./validate.ts";

/** A century: no timer of the product is longer. */
const MOST_MS = 100 * 365 * 86_400_000;
const advance = z.strictObject({
  ms: z.int().min(0).max(MOST_MS).optional(),
  seconds: z
    .number()
    .min(0)
    .max(MOST_MS / 1000)
    .optional(),
});

/**
 * Adds the route; answers where the clock stands: `{now, offsetMs}`. `keep` is given every new offset before it is in force, so that
 * nothing is ever stored of a time that a restart would not know.
 */
export function addDevClock(app: FastifyInstance, clock: VirtualClock, keep: (offsetMs: number) => void): void {
  app.post("/dev/clock/advance", async (request, reply) => {
    const { ms, seconds } = validate(advance, readJson(request.body instanceof Uint8Array ? request.body : new Uint8Array()) ?? {}, "body");
    if ((ms === undefined) === (seconds === undefined)) throw invalid("body", "must have either ms or seconds");
    const step = ms ?? Math.round((seconds ?? 0) * 1000);
    keep(clock.offset + step);
    clock.advance(step);
    const answer = { now: new Date(clock.now()).toISOString(), offsetMs: clock.offset };
    return reply.type("application/json; charset=utf-8").send(JSON.stringify(answer));
  });
}
