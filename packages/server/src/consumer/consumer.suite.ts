/** What a push consumer sees and what its answers do, on either engine: `consumerSuite` is run by the tests beside it. */
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, it } from "vitest";
import { faultOf, type Ground } from "../queue/world.suite.ts";
import { type ConsumerWorld, genuine, openConsumerWorld, own } from "./world.suite.ts";

export function consumerSuite(engine: Ground): void {
  describe(`push consumers on ${engine}`, () => {
    let push: ConsumerWorld;
    const open = async () => {
      push = await openConsumerWorld(engine);
      return push;
    };
    /** A world with a deployed endpoint and the push queue `emails`. */
    const deployed = async (settings: Record<string, unknown> = {}) => {
      await open();
      await push.deploy("dpl_1");
      await push.push(settings);
      return push;
    };
    afterEach(() => push.close());

    it("C1, C2: a message is one POST of its raw body to the deployment's URL and the consumer path, with its own headers", async () => {
      const { endpoint } = await deployed({ visibilityTimeoutSeconds: 120 });
      const before = Date.now();
      const id = await push.send({
        json: { to: "ada" },
        headers: { "X-Tenant": "acme" },
        groupKey: "g 1",
        deduplicationKey: "welcome",
      });
      const request = await endpoint.next();
      expect(request).toMatchObject({ method: "POST", path: "/api/emails?x=1", text: '{"to":"ada"}' });
      expect(request.headers).toMatchObject({
        "content-type": "application/json",
        "x-tenant": "acme",
        "user-agent": "Millrace/0.0.0-test",
        "x-gigadrive-queue-name": "emails",
        "x-gigadrive-queue-message-id": id,
        "x-gigadrive-queue-attempt": "1",
        "x-gigadrive-queue-group-key": "g 1",
        "x-gigadrive-queue-deduplication-key": "welcome",
        "x-gigadrive-queue-deployment-id": "dpl_1",
        "webhook-id": id,
      });
      expect(own(request, "deployment-fallback")).toBeUndefined();
      expect(own(request, "omitted-headers")).toBeUndefined();
      expect(Number(own(request, "expires-at")) - Number(own(request, "created-at"))).toBe(345_600_000);
      expect(Math.abs(Number(own(request, "deadline")) - before - 119_000)).toBeLessThan(60_000);
      await push.rest();
      expect(await push.message(id)).toBeNull();
      expect(await push.stats()).toMatchObject({ acknowledged: 1, ready: 0, inflight: 0 });
    });

    it("C2, SIG-02: bodies of no, one and two bytes verify by the documented steps and by a Standard Webhooks library", async () => {
      const { endpoint } = await deployed();
      const secret = await push.secret();
      for (const body of ["", "1", "{}"]) {
        await push.send({ body });
        const request = await endpoint.next();
        expect(request.text).toBe(body);
        expect(genuine(request, secret)).toBe(true);
        expect(genuine({ ...request, body: new Uint8Array([120]) }, secret)).toBe(false);
        new Webhook(`${secret}=`).verify(request.text, request.headers as Record<string, string>);
      }
    });

    it("C2, BODY-07: attributes of another door that can't be headers are left out and named, and the message is delivered", async () => {
      const { endpoint, world } = await deployed();
      const attributes = { "x-gigadrive-queue-attempt": "9", Host: "evil", Expect: "100-continue", accent: "caf\u00e9", fine: "yes" };
      await world.call("SendMessages", { queueId: "emails" }, { messages: [{ body: "x", attributes }] });
      const request = await endpoint.next();
      expect(request.headers.fine).toBe("yes");
      expect(request.headers.host).toBe(`app.example.com:${endpoint.port}`);
      expect(own(request, "attempt")).toBe("1");
      expect(own(request, "omitted-headers")).toBe("x-gigadrive-queue-attempt,Host,Expect,accent");
      await push.rest();
      expect(await push.stats()).toMatchObject({ acknowledged: 1 });
    });

    it("C3: every answer of the table leaves its message in the state the table says", async () => {
      const { endpoint } = await deployed();
      const dead = { "x-gigadrive-queue-action": "dead-letter", "x-gigadrive-queue-error": "no such template" };
      const later = { "x-gigadrive-queue-retry-after": "90" };
      const answered = async (answer: object) => {
        endpoint.answer(answer);
        const id = await push.send({ body: "x" });
        await endpoint.next();
        await push.rest();
        const message = await push.message(id);
        const inMs = message === null ? null : Date.parse(message.deliverAt) - push.world.clock.now();
        await push.call("GigadrivePurgeQueue", { queueName: "emails" });
        return message === null ? "gone" : { state: message.state, attempts: message.attempts, lastError: message.lastError, inMs };
      };
      const about = (ms: number) =>
        engine === "sqlite" ? ms : expect.toSatisfy((value: number) => value <= ms + 60_000 && value > ms - 60_000);
      const retry = (lastError: string | null, ms = 5_000) => ({ state: "scheduled", attempts: 1, lastError, inMs: about(ms) });

      expect(await answered({ status: 200, body: '{"failed":["x"]}' })).toBe("gone");
      expect(await answered({ status: 204 })).toBe("gone");
      expect(await answered({ status: 202, headers: later })).toEqual({
        state: "scheduled",
        attempts: 0,
        lastError: null,
        inMs: about(90_000),
      });
      for (const status of [200, 404, 500])
        expect(await answered({ status, headers: { ...dead, ...later } })).toMatchObject({
          state: "dead",
          attempts: 1,
          lastError: "no such template",
        });
      expect(await answered({ status: 429, headers: { "retry-after": "30" }, body: "slow" })).toEqual(retry("HTTP 429: slow", 30_000));
      expect(await answered({ status: 503, headers: { "retry-after": "40" } })).toEqual(retry("HTTP 503", 40_000));
      expect(await answered({ status: 500, headers: { "retry-after": "40", "x-gigadrive-queue-error": "no" }, body: "boom" })).toEqual(
        retry("HTTP 500: boom"),
      );
      expect(await answered({ status: 302, headers: { location: "/elsewhere" } })).toEqual(retry("HTTP 302"));
      expect(await answered({ status: 404, body: "what?" })).toEqual(retry("HTTP 404: what?"));
      expect(await answered({ drop: "request" })).toMatchObject({ state: "scheduled", lastError: expect.stringMatching(/^connection: /) });
      expect(await answered({ headers: { "x-gigadrive-queue-retry-after": "-5" } })).toBe("gone");
    });

    it("C3, SDK-02: what is recorded of hostile answers is valid text of at most 512 bytes, and listing works", async () => {
      const { endpoint } = await deployed({ visibilityTimeoutSeconds: 60 });
      const binary = Uint8Array.from({ length: 600 }, (_, i) => i % 256);
      const ids: string[] = [];
      for (const body of [`${"a".repeat(511)}\u{1F600}`, binary]) {
        endpoint.answer({ status: 500, body });
        ids.push(await push.send({ body: "x" }));
        await endpoint.next();
        await push.rest();
      }
      const { items, total } = await push.call("GigadriveListMessages", { queueName: "emails" });
      expect(total).toBe(2);
      expect(items.map(({ id }) => id)).toEqual(ids);
      expect(items[0]?.lastError).toBe(`HTTP 500: ${"a".repeat(511)}`);
      expect(items[1]?.lastError).toMatch(/^HTTP 500: /);
    });

    it("C3, ANS-11: an explicit minute is never earlier than a minute, spends no attempt, and 0 means now", async () => {
      const { endpoint } = await deployed();
      endpoint.answer({ headers: { "x-gigadrive-queue-retry-after": "60" } });
      await push.send({ body: "x" });
      expect(own(await endpoint.next(), "attempt")).toBe("1");
      if (engine === "sqlite") {
        await push.pass(59_999);
        await push.rest();
        expect(endpoint.requests).toHaveLength(1);
      }
      endpoint.answer({ headers: { "x-gigadrive-queue-retry-after": "0" } });
      await push.pass(engine === "sqlite" ? 1 : 60_000);
      expect(own(await endpoint.next(), "attempt")).toBe("1");
      endpoint.answer({});
      expect(own(await endpoint.next(), "attempt")).toBe("1");
    });

    it("C3: a deferral beyond the retention is capped at what is left of it", async () => {
      const { endpoint, world } = await deployed({ retentionSeconds: 600 });
      endpoint.answer({ headers: { "x-gigadrive-queue-retry-after": "86400" } });
      const id = await push.send({ body: "x" });
      await endpoint.next();
      await push.rest();
      const message = await push.message(id);
      const left = Date.parse(message?.expiresAt ?? "") - Date.parse(message?.deliverAt ?? "");
      expect(Math.abs(left)).toBeLessThanOrEqual(world.slackMs);
    });

    it("C4, ANS-11: retries wait 5, 10 and 20 s, or as the queue sets; after maxAttempts the message is in the dead-letter list", async () => {
      const { endpoint } = await deployed({ maxAttempts: 4 });
      endpoint.answer({ status: 500, body: "no" });
      const id = await push.send({ body: "x" });
      expect(own(await endpoint.next(), "attempt")).toBe("1");
      for (const [i, seconds] of [5, 10, 20].entries()) {
        if (engine === "sqlite") {
          await push.pass(seconds * 1000 - 1);
          await push.rest();
          expect(endpoint.requests).toHaveLength(i + 1);
        }
        await push.pass(engine === "sqlite" ? 1 : seconds * 1000);
        expect(own(await endpoint.next(), "attempt")).toBe(String(i + 2));
      }
      await push.rest();
      expect(await push.message(id)).toMatchObject({ state: "dead", attempts: 4, lastError: "HTTP 500: no" });
      expect(await push.call("GigadriveRedrive", { queueName: "emails" }, {})).toEqual({ redrivenMessages: 1 });
      endpoint.answer({});
      await push.pass(0);
      expect(own(await endpoint.next(), "attempt")).toBe("1");
    });

    it("C4: without a dead-letter list the last failure deletes the message; the queue's own backoff is kept to", async () => {
      const { endpoint } = await deployed({ maxAttempts: 2, deadLetter: false, retryBackoffMinSeconds: 2, retryBackoffMaxSeconds: 2 });
      endpoint.answer({ status: 500 });
      const id = await push.send({ body: "x" });
      await endpoint.next();
      await push.pass(2_000);
      await endpoint.next();
      await push.rest();
      expect(await push.message(id)).toBeNull();
      expect(await push.stats()).toMatchObject({ dead: 0, deadLettered: 1 });
    });

    it("C5: a request may take a second less than the visibility timeout, 5 s at least, and its lease outlasts it", async () => {
      const { endpoint } = await deployed({ visibilityTimeoutSeconds: 120 });
      endpoint.answer({ after: new Promise(() => {}) });
      const id = await push.send({ body: "x" });
      await endpoint.next();
      expect(push.started[0]?.timeoutMs).toBe(119_000);
      push.world.clock.advance(119_000);
      expect(await push.message(id)).toMatchObject({ state: "inflight" });
      push.timeOut();
      await push.rest();
      expect(await push.message(id)).toMatchObject({ state: "scheduled", lastError: "timeout", attempts: 1 });
      await push.call("GigadriveUpdateQueue", { queueName: "emails" }, { visibilityTimeoutSeconds: 2 });
      await push.pass(5_000);
      await endpoint.next();
      expect(push.started[1]?.timeoutMs).toBe(5_000);
      push.timeOut();
      await push.rest();
    });

    it("C6: no more requests are open than the queue's concurrency, and a change of it is kept to", async () => {
      const { endpoint } = await deployed({ concurrency: 3 });
      let release = (): void => {};
      endpoint.answer({
        after: new Promise<void>((resolve) => {
          release = resolve;
        }),
      });
      for (let i = 0; i < 8; i++) await push.send({ body: String(i) });
      await endpoint.opened(3);
      expect(push.started).toHaveLength(3);
      await push.call("GigadriveUpdateQueue", { queueName: "emails" }, { concurrency: 5 });
      await endpoint.opened(5);
      expect(endpoint.highWater).toBe(5);
      endpoint.answer({});
      release();
      await endpoint.received(8);
      await push.rest();
      expect(await push.stats()).toMatchObject({ acknowledged: 8 });
    });

    it("C6: a rate limit lets its count start at once and then one per share of the period; a paused queue starts none", async () => {
      const { endpoint } = await deployed({ rateLimit: { count: 2, periodSeconds: 10 } });
      for (let i = 0; i < 4; i++) await push.send({ body: String(i) });
      await endpoint.received(2);
      await push.rest();
      expect(endpoint.requests).toHaveLength(2);
      await push.pass(5_000);
      await endpoint.received(3);
      await push.call("GigadrivePauseQueue", { queueName: "emails" });
      await push.pass(60_000);
      await push.rest();
      expect(endpoint.requests).toHaveLength(3);
      await push.call("GigadriveResumeQueue", { queueName: "emails" });
      await endpoint.received(4);
    });

    it("C6, Q10: messages of a group are delivered one at a time and in order, also around a retry; others don't wait", async () => {
      const { endpoint } = await deployed();
      endpoint.answer((request) => ({ status: request.text === "a1" && own(request, "attempt") === "1" ? 500 : 200 }));
      await push.call("GigadrivePauseQueue", { queueName: "emails" });
      for (const body of ["a1", "a2", "a3"]) await push.send({ body, groupKey: "a" });
      await push.send({ body: "b1", groupKey: "b" });
      await push.send({ body: "free" });
      await push.call("GigadriveResumeQueue", { queueName: "emails" });
      const first = (await endpoint.received(3)).map(({ text }) => text);
      expect(first.sort()).toEqual(["a1", "b1", "free"]);
      await push.rest();
      expect(endpoint.requests).toHaveLength(3);
      await push.pass(5_000);
      await endpoint.received(6);
      expect(endpoint.requests.slice(3).map(({ text }) => text)).toEqual(["a1", "a2", "a3"]);
    });

    it("C6, P13: a 429 halves what may be open; after ten failures in a row one delivery at a time is tried", async () => {
      const { endpoint } = await deployed({ concurrency: 4, maxAttempts: 100 });
      endpoint.answer({ status: 429, headers: { "retry-after": "1" } });
      for (let i = 0; i < 12; i++) await push.send({ body: String(i) });
      await endpoint.received(10);
      await push.rest();
      const before = endpoint.requests.length;
      await push.pass(60_000);
      await push.rest();
      expect(endpoint.requests.length - before).toBe(1);
      endpoint.answer({ after: new Promise(() => {}) });
      push.world.clock.advance(60_000);
      await push.restart();
      // It was failing when it stopped, so it starts with one delivery, although four may be open and twelve messages wait.
      await endpoint.opened(1);
      await push.send({ body: "one more" });
      expect(push.started.length - before - 1).toBe(1);
    });

    it("C7: while nothing is deployed messages wait and spend nothing; a promotion delivers them, a retirement stops it", async () => {
      const { endpoint } = await open();
      await push.push();
      const id = await push.send({ body: "x" });
      await push.pass(60_000);
      await push.rest();
      expect(push.started).toHaveLength(0);
      expect(await push.message(id)).toMatchObject({ state: "ready", attempts: 0, lastDeliveredAt: null });
      await push.call("PutDeployment", { deploymentId: "dpl_1" }, { url: push.base() });
      await push.rest();
      expect(push.started).toHaveLength(0);
      await push.call("PromoteDeployment", { deploymentId: "dpl_1" });
      await endpoint.next();
      await push.rest();
      expect(await push.call("RetireDeployment", { deploymentId: "dpl_1" })).toMatchObject({ state: "retired" });
      const waits = await push.send({ body: "y" });
      await push.pass(60_000);
      await push.rest();
      expect(endpoint.requests).toHaveLength(1);
      expect(await push.message(waits)).toMatchObject({ state: "ready", attempts: 0 });
      expect(await faultOf(push.call("PromoteDeployment", { deploymentId: "dpl_1" }))).toMatchObject({ code: "deployment_not_found" });
    });

    it("C7: a promotion and a rollback redirect the very next delivery", async () => {
      const { endpoint, other } = await deployed();
      await push.deploy("dpl_2", other);
      await push.send({ body: "new" });
      expect(own(await other.next(), "deployment-id")).toBe("dpl_2");
      await push.call("PromoteDeployment", { deploymentId: "dpl_1" });
      await push.send({ body: "back" });
      expect(own(await endpoint.next(), "deployment-id")).toBe("dpl_1");
      const { items, total } = await push.call("ListDeployments", {});
      expect(total).toBe(2);
      expect(items.map(({ id, state }) => [id, state])).toEqual([
        ["dpl_2", "registered"],
        ["dpl_1", "current"],
      ]);
    });

    it("C7: a pinned message goes to its deployment while that serves, and then to the current one with the fallback named", async () => {
      const { endpoint, other } = await deployed();
      await push.call("PutDeployment", { deploymentId: "dpl_0" }, { url: push.base(other) });
      await push.send({ body: "pinned", deploymentId: "dpl_0" });
      const pinned = await other.next();
      expect([own(pinned, "deployment-id"), own(pinned, "deployment-fallback")]).toEqual(["dpl_0", undefined]);
      await push.call("RetireDeployment", { deploymentId: "dpl_0" });
      await push.send({ body: "pinned", deploymentId: "dpl_0" });
      const fallen = await endpoint.next();
      expect([own(fallen, "deployment-id"), own(fallen, "deployment-fallback")]).toEqual(["dpl_1", "dpl_0"]);
    });

    it("C7: environments are apart: each has its queues, deployments and secret", async () => {
      const { endpoint, other } = await deployed();
      await push.call("CreateEnvironment", {}, { slug: "staging" });
      await push.call("GigadriveCreateQueue", {}, { name: "emails", consumerPath: "/staging", environment: "staging" });
      await push.deploy("dpl_s", other, "staging");
      await push.send({ body: "s", environment: "staging" });
      const request = await other.next();
      expect(request.path).toBe("/staging");
      const secret = (await push.call("GetSigningSecret", { environmentId: "staging" })).secret;
      expect(genuine(request, secret)).toBe(true);
      expect(genuine(request, await push.secret())).toBe(false);
      await push.rest();
      expect(endpoint.requests).toHaveLength(0);
      expect(await faultOf(push.call("GigadriveListQueues", {}, undefined, { query: { environment: "nowhere" } }))).toMatchObject({
        code: "environment_not_found",
      });
    });

    it("C8: a rotation prepares a secret that signs nothing until it is activated, or until 24 hours have passed", async () => {
      const { endpoint } = await deployed();
      const first = await push.secret();
      const at = { environmentId: "production" };
      const delivered = async () => {
        await push.send({ body: "x" });
        return endpoint.next();
      };
      expect(await faultOf(push.call("ActivateSigningSecret", at))).toMatchObject({ code: "invalid_request" });
      const rotated = await push.call("RotateSigningSecret", at);
      expect(rotated.secret).toBe(first);
      const second = rotated.next?.secret ?? "";
      expect(second).toMatch(/^whsec_[A-Za-z0-9]{43}$/);
      expect(genuine(await delivered(), first)).toBe(true);
      expect(await push.call("ActivateSigningSecret", at)).toEqual({ secret: second, next: null });
      const request = await delivered();
      expect([genuine(request, second), genuine(request, first)]).toEqual([true, false]);
      const third = (await push.call("RotateSigningSecret", at)).next?.secret ?? "";
      if (engine === "sqlite") {
        await push.pass(24 * 3_600_000 - 1);
        expect(genuine(await delivered(), second)).toBe(true);
      }
      await push.pass(engine === "sqlite" ? 1 : 24 * 3_600_000);
      expect(genuine(await delivered(), third)).toBe(true);
      expect(await push.secret()).toBe(third);
      await push.restart();
      expect(genuine(await delivered(), third)).toBe(true);
    });

    it("P1: a queue has a consumer path or a subscription, never both", async () => {
      await deployed();
      const target = { kind: "https", url: push.base(), timeoutSeconds: 5 };
      const subscribe = (queueId: string) => push.call("CreateSubscription", {}, { queueId, target, state: "paused" });
      expect(await faultOf(subscribe("emails"))).toMatchObject({ code: "subscription_exists", status: 409 });
      await push.call("GigadriveCreateQueue", {}, { name: "pulled" });
      const { id } = await subscribe("pulled");
      const consume = () => push.call("GigadrivePutQueue", { queueName: "pulled" }, { consumerPath: "/x" });
      expect(await faultOf(consume())).toMatchObject({ code: "subscription_exists", status: 409 });
      await push.call("DeleteSubscription", { subscriptionId: id });
      expect(await consume()).toMatchObject({ created: false, mode: "push" });
    });

    it("C1: switching between push and pull loses and doubles nothing; the open delivery is settled", async () => {
      const { endpoint } = await deployed();
      let release = (): void => {};
      endpoint.answer({
        after: new Promise<void>((resolve) => {
          release = resolve;
        }),
      });
      await push.send({ body: "open" });
      await endpoint.next();
      expect(await push.call("GigadriveUpdateQueue", { queueName: "emails" }, { consumerPath: null })).toMatchObject({ mode: "pull" });
      expect(push.consumers.lanes).toBe(0);
      await push.send({ body: "pulled" });
      release();
      await push.rest();
      const { messages } = await push.call("GigadriveReceive", { queueName: "emails" }, { maxMessages: 10 });
      expect(messages.map(({ body }) => body)).toEqual(["pulled"]);
      expect(await push.stats()).toMatchObject({ acknowledged: 1, inflight: 1 });
      endpoint.answer({});
      await push.send({ body: "pushed" });
      await push.call("GigadriveUpdateQueue", { queueName: "emails" }, { consumerPath: "/again" });
      expect(await endpoint.next()).toMatchObject({ path: "/again", text: "pushed" });
      await push.pass(60_000);
      expect(await endpoint.next()).toMatchObject({ text: "pulled" });
      await push.rest();
      expect(await push.stats()).toMatchObject({ acknowledged: 3, inflight: 0, ready: 0 });
    });

    it("C1, P23: push consumers and what they serve are there again after a restart, and a deleted queue has no lane", async () => {
      const { endpoint } = await deployed();
      await push.restart();
      await push.send({ body: "x" });
      expect(genuine(await endpoint.next(), await push.secret())).toBe(true);
      await push.rest();
      expect(push.consumers.lanes).toBe(1);
      expect(await push.call("GigadriveDeleteQueue", { queueName: "emails" })).toEqual({ purgedMessages: 0 });
      expect(push.consumers.lanes).toBe(0);
    });

    it("C3: a port where nobody listens is a connection failure with its code", async () => {
      await open();
      await push.call("PutDeployment", { deploymentId: "dpl_1" }, { url: "https://app.example.com:1" });
      await push.call("PromoteDeployment", { deploymentId: "dpl_1" });
      await push.push();
      const id = await push.send({ body: "x" });
      await push.rest();
      expect(await push.message(id)).toMatchObject({ state: "scheduled", attempts: 1, lastError: "connection: ECONNREFUSED" });
    });
  });
}
