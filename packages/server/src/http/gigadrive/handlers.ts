/** All handlers of the Gigadrive door, put together. */
import type { Deployments } from "../../deployment/deployment.ts";
import type { Environments } from "../../deployment/environment.ts";
import { createProvision } from "../../provision/provision.ts";
import type { GigadriveMessages } from "../../queue/gigadrive-messages.ts";
import type { Schedules } from "../../schedule/schedule.ts";
import type { QueueRow } from "../../store/types.ts";
import type { Handlers } from "../handler.ts";
import { configHandlers, createPlanFor } from "./config.ts";
import { deploymentHandlers } from "./deployments.ts";
import { gigadriveMessageHandlers } from "./messages.ts";
import { createPlaces } from "./place.ts";
import { type GigadriveQueueDeps, gigadriveQueueHandlers } from "./queues.ts";
import { scheduleHandlers } from "./schedules.ts";

type Part = ReturnType<typeof gigadriveQueueHandlers> &
  ReturnType<typeof gigadriveMessageHandlers> &
  ReturnType<typeof scheduleHandlers> &
  ReturnType<typeof configHandlers> &
  ReturnType<typeof deploymentHandlers>;

/** The handlers of queues, messages, schedules, deployments and environments. */
export function gigadriveHandlers(
  deps: Omit<GigadriveQueueDeps, "places"> & {
    gigadrive: GigadriveMessages;
    schedules: Schedules;
    findQueue: (projectNo: number, reference: string, environment?: string) => Promise<QueueRow | null>;
    environments: Environments;
    deployments: Deployments;
  },
): Pick<Handlers, keyof Part> {
  const places = createPlaces(deps);
  const { access, queues, schedules, findQueue, consumers } = deps;
  const provision = createProvision({ queues, schedules, find: findQueue, refresh: (queueNo) => consumers.refresh(queueNo) });
  const planFor = createPlanFor({ access, provision });
  return {
    ...gigadriveQueueHandlers({ ...deps, places }),
    ...gigadriveMessageHandlers({ ...deps, places }),
    ...scheduleHandlers({ ...deps, places }),
    ...configHandlers({ places, planFor }),
    ...deploymentHandlers({ ...deps, places, planFor }),
  };
}
