import { expect, it } from "vitest";
import { acknowledged, loadSuite, until } from "./load.suite.ts";
import { openConsumerWorld, own } from "./world.suite.ts";

loadSuite("postgres");

it("C7: under load another node moves its deliveries to a promoted deployment within a second; each message comes once, and none fails", async () => {
  const push = await openConsumerWorld("postgres");
  const { endpoint, other, started } = push;
  await push.deploy("dpl_1", endpoint);
  await push.call("PutDeployment", { deploymentId: "dpl_2" }, { url: push.base(other) });
  await push.push({ concurrency: 4 });
  const node = await push.node();
  const send = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) await push.send({ body: `m${n}` });
  };
  try {
    // From here on only the other node delivers.
    await push.consumers.stop(0);
    const sent = send(0, 60);
    await until(push, () => endpoint.requests.length >= 20);
    await push.call("PromoteDeployment", { deploymentId: "dpl_2" });
    push.world.clock.advance(1_000);
    await node.consumers.looked();
    const movedAt = started.length;
    await sent;
    await send(60, 100);
    await acknowledged(push, 100, () => node.consumers.rest());
    expect(started.slice(movedAt).every(({ url }) => url.startsWith(push.base(other)))).toBe(true);
    expect(other.requests.length).toBeGreaterThanOrEqual(40);
    const requests = [...endpoint.requests, ...other.requests];
    expect(requests.map(({ text }) => text).sort()).toEqual(Array.from({ length: 100 }, (_, n) => `m${n}`).sort());
    expect(requests.every((request) => own(request, "attempt") === "1")).toBe(true);
    expect(await push.stats()).toMatchObject({ acknowledged: 100, ready: 0, inflight: 0, scheduled: 0, dead: 0 });
  } finally {
    await node.close();
    await push.close();
  }
});
