/** What can be done with deployments (C7). A change is in force for deliveries before it is answered. */
import { invalid } from "@millrace/contract";
import { checkTarget } from "../delivery/target.ts";
import type { EgressPolicy } from "../delivery/types.ts";
import type { DeploymentRow } from "../store/deployment.ts";
import type { Store } from "../store/store.ts";
import type { EnvironmentRow } from "./environment.ts";

export type { DeploymentRow } from "../store/deployment.ts";

export interface Deployments {
  /** Registers a deployment or changes its URL. Throws `invalid_target`, `invalid_request`. */
  put(environment: EnvironmentRow, id: string, url: string): Promise<DeploymentRow>;
  /** By id; throws `deployment_not_found`. */
  find(projectNo: number, id: string): Promise<DeploymentRow>;
  list(environment: EnvironmentRow, page: { offset: number; limit: number }): Promise<{ items: DeploymentRow[]; total: number }>;
  promote(projectNo: number, id: string): Promise<DeploymentRow>;
  retire(projectNo: number, id: string): Promise<DeploymentRow>;
}

/** Makes the verbs. `policy` is what base URLs are checked by (P18); `served` puts a change in force. */
export function createDeployments(deps: {
  store: Store;
  policy: EgressPolicy;
  served: (environmentNo: number) => Promise<void>;
}): Deployments {
  const { store, policy } = deps;
  const changed = async (verb: Promise<DeploymentRow>): Promise<DeploymentRow> => {
    const row = await verb;
    await deps.served(row.environmentNo);
    return row;
  };
  return {
    async put(environment, id, url) {
      if (url.includes("?")) throw invalid("url", "a base URL without a query", url);
      checkTarget(url, policy, "url");
      return changed(store.run("putDeployment", { projectNo: environment.projectNo, environmentNo: environment.no, id, url }));
    },
    find: (projectNo, id) => store.run("getDeployment", projectNo, id),
    list: (environment, page) => store.run("listDeployments", environment.no, page),
    promote: (projectNo, id) => changed(store.run("promoteDeployment", projectNo, id)),
    retire: (projectNo, id) => changed(store.run("retireDeployment", projectNo, id)),
  };
}
