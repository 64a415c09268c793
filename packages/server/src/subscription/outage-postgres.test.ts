/** The database goes away between an answer and its settlement, and comes back. The server is this file's own. */
import { startPostgres } from "@millrace/testkit";
import { expect, it } from "vitest";
import { bodies, gate, messages, openPushWorld } from "./world.suite.ts";

it("CTRL-05, CTRL-06: a 2xx whose outcome was not stored is no success; deliveries resume by themselves once the database is back", async () => {
  const server = await startPostgres();
  process.env.MILLRACE_TEST_POSTGRES = server.url;
  const push = await openPushWorld("postgres");
  try {
    const { endpoint, subscriptions, world } = push;
    const hold = gate();
    endpoint.answer(hold);
    const { id } = await push.subscribe({ name: "orders" }, { maxConcurrency: 1 });
    await push.send("orders", "one");
    const request = await endpoint.next();
    await server.halt("immediate");
    hold.open();
    await request.done;
    await expect(push.stats("orders")).rejects.toMatchObject({ code: "unavailable" });
    await server.resume();
    // Whoever tries again waits by the injected clock: let it run until the work is done.
    let resting = false;
    const rest = subscriptions.rest().then(() => {
      resting = true;
    });
    while (!resting) {
      world.clock.advance(500);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await rest;
    expect((await push.stats("orders")).acknowledged).toBe(1);
    expect(await push.status(id)).toMatchObject({ health: "healthy", lastError: null });
    expect((await push.status(id)).lastSuccessAt).not.toBeNull();
    expect(messages(request)).toMatchObject([{ body: "one", receiveCount: 1 }]);
    await push.send("orders", "two");
    expect(bodies(await endpoint.next())).toEqual(["two"]);

    // A process that ends before it could settle: the 2xx is lost, the message is not, and no success was counted.
    endpoint.answer(() => ({}));
  } finally {
    await push.close();
    await server.stop();
  }
});
