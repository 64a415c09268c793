/**
 * A queue subscription's lane: puts into the queue what it could not take at the fan-out (T9). There is no endpoint to spare, only a
 * queue that may be full for a while or gone; tries follow the retry policy, and each is one transaction.
 */
import { laneKey } from "../cluster/tenure.ts";
import { insist } from "../delivery/insist.ts";
import type { LaneSource } from "../delivery/lane.ts";
import type { TopicLaneRow } from "../store/topic-lane.ts";
import { decideRefusal } from "./delivery-rules.ts";
import { createJobs, type Delivery, type Job } from "./job.ts";
import type { TopicLaneDeps } from "./webhook-lane.ts";

/** How many are put at once. A FIFO topic's groups keep their order by themselves. */
const AT_ONCE = 10;
const LEASE_MS = 60_000;

/** A job and when its lease ends by this process's clock. */
interface Put {
  job: Job;
  at: number;
}

/** Makes the lane of the subscription that `row` answers. */
export function createQueueLane(deps: TopicLaneDeps, row: () => TopicLaneRow, alive: () => boolean): LaneSource<Put> {
  const { clock, ownership, health, meter, log } = deps;
  const jobs = createJobs(deps, row, clock.now);
  const { no, id, queueNo } = row().subscription;
  const key = laneKey(queueNo);
  let { failing } = row().subscription;
  const mine = (): boolean => alive() && ownership.fence(key) !== null;
  const within = (call: () => Promise<unknown>, at: number, signal?: AbortSignal): Promise<boolean> => {
    const failed = (err: unknown): void => log.warn({ topicSubscription: id, err }, "a queue delivery could not be stored");
    return insist(call, { clock, until: at + LEASE_MS, signal, failed });
  };

  const put = async (job: Job & { delivery: Delivery }, at: number): Promise<void> => {
    const { result } = await jobs.put(job);
    if (result === "lost") return;
    const refused = result === "settled" ? null : result;
    const standing = jobs.standing(job, clock.now() - at, { random: deps.random(), wallMs: clock.wall() });
    const decision = refused === null ? null : decideRefusal(refused, standing);
    const { deadLetter = null } = decision === null ? {} : await jobs.settle(job, decision, clock.now());
    meter.attempt(jobs.names(), decision?.failure?.class ?? "delivered");
    meter.ended(jobs.names(), { outcome: decision?.outcome ?? "delivered", latencyMs: standing.ageMs, deadLetter });
    health.note(no, decision?.failure ?? null, failing !== (decision !== null));
    failing = decision !== null;
  };

  return {
    key: `topic subscription ${id}`,
    permit: (inFlight) => ({ start: mine() ? AT_ONCE - inFlight : 0, inMs: null }),
    async claim(n) {
      const fence = ownership.fence(key);
      if (fence === null) return { work: [], nextInMs: null };
      const at = clock.now();
      const { jobs: claimed, nextInMs } = await jobs.claim(n, LEASE_MS, fence);
      return { work: claimed.map((job) => ({ job, at })), nextInMs };
    },
    async deliver({ job, at }, { signal, over }) {
      const { delivery } = job;
      if (!mine() || delivery === null) await within(() => jobs.release([job]), at, signal);
      else await within(() => put({ ...job, delivery }, at), at, signal);
      over();
    },
    async release(work) {
      const at = work.reduce((soonest, put) => Math.min(soonest, put.at), clock.now());
      await within(() => jobs.release(work.map(({ job }) => job)), at);
    },
  };
}
