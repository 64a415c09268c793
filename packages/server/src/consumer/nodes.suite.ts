/** What a node hears of the deployments and push queues that another one changed. Run by the tests beside it. */
import { expect, it } from "vitest";
import type { Ground } from "../queue/world.suite.ts";
import { type ConsumerWorld, genuine, openConsumerWorld, own } from "./world.suite.ts";

/** Resolves once the node has heard of what was changed. */
async function heard(push: ConsumerWorld, node: Awaited<ReturnType<ConsumerWorld["node"]>>): Promise<void> {
  await node.consumers.rest();
  push.world.clock.advance(1_000);
  await node.consumers.looked();
}

export function consumerNodesSuite(ground: Exclude<Ground, "sqlite">): void {
  it("C7, C8, A13: another node calls the new deployment, with the new secret, within a second, and learns of new push queues", async () => {
    const push = await openConsumerWorld(ground);
    const { endpoint, other } = push;
    await push.deploy("dpl_1", endpoint);
    await push.push();
    const node = await push.node();
    try {
      // From here on only the other node delivers.
      await push.consumers.stop(0);
      await push.send({ body: "one" });
      expect(own(await endpoint.next(), "deployment-id")).toBe("dpl_1");
      await push.deploy("dpl_2", other);
      await push.call("RotateSigningSecret", { environmentId: "production" });
      const { secret } = await push.call("ActivateSigningSecret", { environmentId: "production" });
      await heard(push, node);
      await push.send({ body: "two" });
      const request = await other.next();
      expect([own(request, "deployment-id"), genuine(request, secret)]).toEqual(["dpl_2", true]);
      await push.call("GigadriveUpdateQueue", { queueName: "emails" }, { consumerPath: null });
      await push.call("GigadriveCreateQueue", {}, { name: "more", consumerPath: "/more" });
      await heard(push, node);
      expect(node.consumers.lanes).toBe(1);
      await push.call("GigadriveSend", { queueName: "more" }, { body: "three" });
      expect((await other.next()).path).toBe("/more");
    } finally {
      await node.close();
      await push.close();
    }
  });

  if (ground !== "databases") return;
  it("A14, C7: a database that can't be read keeps its lanes, and others learn of push queues as ever", async () => {
    const push = await openConsumerWorld(ground);
    const node = await push.node();
    try {
      await push.deploy("dpl_1");
      await push.push();
      await heard(push, node);
      expect(node.consumers.lanes).toBe(1);
      // This node's sessions with it are ended, and it takes no other.
      await node.store.databases.at(-1)?.store.close();
      await push.call("GigadriveCreateQueue", {}, { name: "here", consumerPath: "/here" });
      await push.call("GigadriveCreateQueue", {}, { name: "there", consumerPath: "/there", ...push.world.placed });
      await heard(push, node);
      expect(node.consumers.lanes).toBe(2);
      push.world.clock.advance(20_000);
      await node.consumers.looked();
      expect(node.consumers.lanes).toBe(2);
    } finally {
      await push.close();
      await node.close().catch(() => {});
    }
  });
}
