/** Ends the HTTP server within a bound (P25): once a server is closing, nobody but this cuts off a client that sends or reads too slowly. */
import type { FastifyInstance } from "fastify";

/** Calls once after that much real time; the result cancels. */
export type After = (ms: number, call: () => void) => () => void;

const afterRealTime: After = (ms, call) => {
  const timer = setTimeout(call, ms);
  return () => clearTimeout(timer);
};

/** Takes no new connection and lets requests under way end for `graceMs`, then cuts what is left. Resolves once nothing is open. */
export async function closeApp(app: FastifyInstance, graceMs: number, after: After = afterRealTime): Promise<void> {
  const cancel = after(graceMs, () => app.server.closeAllConnections());
  await app.close();
  cancel();
}
