/** All handlers of the Gigadrive door, put together. */
import type { Deployments } from "../../deployment/deployment.ts";
import type { Environments } from "../../deployment/environment.ts";
import type { GigadriveMessages } from "../../queue/gigadrive-messages.ts";
import type { Handlers } from "../handler.ts";
import { deploymentHandlers } from "./deployments.ts";
import { gigadriveMessageHandlers } from "./messages.ts";
import { createPlaces } from "./place.ts";
import { type GigadriveQueueDeps, gigadriveQueueHandlers } from "./queues.ts";

type Part = ReturnType<typeof gigadriveQueueHandlers> & ReturnType<typeof gigadriveMessageHandlers> & ReturnType<typeof deploymentHandlers>;

/** The handlers of queues, messages, deployments and environments. */
export function gigadriveHandlers(
  deps: Omit<GigadriveQueueDeps, "places"> & { gigadrive: GigadriveMessages; environments: Environments; deployments: Deployments },
): Pick<Handlers, keyof Part> {
  const places = createPlaces(deps);
  return {
    ...gigadriveQueueHandlers({ ...deps, places }),
    ...gigadriveMessageHandlers({ ...deps, places }),
    ...deploymentHandlers({ ...deps, places }),
  };
}
