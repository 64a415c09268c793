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
    // A crash of the database may lose the last claims, which are not synced; a send is, and whatever was committed before it.
    await world.call("CreateQueue", {}, { name: "synced" });
    const flush = () => push.send("synced", "x");
    const { id } = await push.subscribe({ name: "orders" }, { maxConcurrency: 1 });
    await push.send("orders", "one");
    const request = await endpoint.next();
    await flush();
    await server.halt("immediate");
    hold.open();
    await request.done;
    await expect(push.stats("orders")).rejects.toMatchObject({ code: "unavailable" });
    await server.resume();
    // Whoever tries again waits by the injected clock, one more second after every question that the database answers.
    let resting = false;
    const rest = subscriptions.rest().then(() => {
      resting = true;
    });
    for (let second = 0; second < 30 && !resting; ) {
      const answered = await push.stats("orders").then(
        () => true,
        () => false,
      );
      if (!answered) continue;
      second++;
      world.clock.advance(1_000);
    }
    await rest;
    expect((await push.stats("orders")).acknowledged).toBe(1);
    expect(await push.status(id)).toMatchObject({ health: "healthy", lastError: null });
    expect((await push.status(id)).lastSuccessAt).not.toBeNull();
    expect(messages(request)).toMatchObject([{ body: "one", receiveCount: 1 }]);
    await push.send("orders", "two");
    expect(bodies(await endpoint.next())).toEqual(["two"]);

    // A process that ends before it could settle: its 2xx is lost, the message is not, and no success was counted.
    await subscriptions.rest();
    const { lastSuccessAt } = await push.status(id);
    const second = gate();
    endpoint.answer(second);
    await push.send("orders", "three");
    const lost = await endpoint.next();
    await flush();
    await server.halt("immediate");
    second.open();
    await lost.done;
    await expect(push.stats("orders")).rejects.toMatchObject({ code: "unavailable" });
    await subscriptions.stop(0);
    await server.resume();
    endpoint.answer({ status: 500 });
    await push.restart();
    expect((await push.status(id)).lastSuccessAt).toBe(lastSuccessAt);
    await push.pass(120_000);
    expect(messages(await endpoint.next())).toMatchObject([{ messageId: messages(lost)[0]?.messageId, receiveCount: 2 }]);
  } finally {
    await push.close();
    await server.stop();
  }
});
