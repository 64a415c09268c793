/**
 * Handlers of deployments and environments. Their permissions are checked on the environment; one outside the key's reach does not
 * exist for it, nor do its deployments (A6).
 */
import { type Answer, Fault, type Operations } from "@millrace/contract";
import type { DeploymentRow, Deployments } from "../../deployment/deployment.ts";
import type { EnvironmentRow, Environments, SigningSecrets } from "../../deployment/environment.ts";
import { type Access, environmentResource } from "../../identity/access.ts";
import type { Caller, ProjectRow } from "../../identity/caller.ts";
import type { Handlers } from "../handler.ts";
import type { PlanFor } from "./config.ts";
import type { Places } from "./place.ts";
import { PAGE } from "./queues.ts";

type Names =
  | "ListDeployments"
  | "PutDeployment"
  | "GetDeployment"
  | "PromoteDeployment"
  | "RetireDeployment"
  | "ListEnvironments"
  | "CreateEnvironment"
  | "GetEnvironment"
  | "GetSigningSecret"
  | "RotateSigningSecret"
  | "ActivateSigningSecret";

const iso = (ms: number): string => new Date(ms).toISOString();
const environmentMissing = (): Fault => new Fault("environment_not_found", "there is no such environment, or the key does not reach it");
const deploymentMissing = (): Fault => new Fault("deployment_not_found", "there is no such deployment, or the key does not reach it");

const showDeployment = (row: DeploymentRow): Answer<Operations["GetDeployment"]> => ({
  id: row.id,
  environment: row.environment,
  url: row.url,
  state: row.state,
  promotedAt: row.promotedAt === null ? null : iso(row.promotedAt),
  createdAt: iso(row.createdAt),
  updatedAt: iso(row.updatedAt),
});
const showEnvironment = ({ id, slug, createdAt }: EnvironmentRow): Answer<Operations["GetEnvironment"]> => ({
  id,
  slug,
  createdAt: iso(createdAt),
});
const showSecrets = ({ secret, next }: SigningSecrets): Answer<Operations["GetSigningSecret"]> => ({
  secret,
  next: next === null ? null : { secret: next.secret, activatesAt: iso(next.activatesAt) },
});

/** The handlers of deployments and environments. */
export function deploymentHandlers(deps: {
  access: Access;
  places: Places;
  environments: Environments;
  deployments: Deployments;
  planFor: PlanFor;
}): Pick<Handlers, Names> {
  const { access, places, environments, deployments, planFor } = deps;

  const reachEnvironment = async (
    caller: Caller,
    params: { applicationId: string },
    reference: string | undefined,
    permission: string,
  ): Promise<EnvironmentRow> => {
    const { project, environment } = await places.of(caller, params, reference);
    access.demand(caller, permission, environmentResource(project, environment), environmentMissing);
    return environments.find(project.no, environment);
  };
  const reachDeployment = async (
    caller: Caller,
    params: { applicationId: string; deploymentId: string },
    permission: string,
  ): Promise<{ project: ProjectRow; row: DeploymentRow }> => {
    const project = await access.application(caller, params.applicationId, null);
    const row = await deployments.find(project.no, params.deploymentId);
    access.demand(caller, permission, environmentResource(project, row.environment), deploymentMissing);
    return { project, row };
  };

  return {
    async ListDeployments({ caller }, { params, query }) {
      const environment = await reachEnvironment(caller, params, query.environment, "deployments.list");
      const { items, total } = await deployments.list(environment, { offset: query.offset ?? 0, limit: query.limit ?? PAGE });
      return { items: items.map(showDeployment), total };
    },
    async PutDeployment({ caller }, { params, query, body }) {
      const environment = await reachEnvironment(caller, params, body.environment ?? query.environment, "deployments.register");
      const place = await places.of(caller, params, environment.slug);
      // Read and checked first: a fault in the section registers nothing.
      const plan = body.config === undefined ? null : await planFor(caller, place, body.config, false, "config");
      const row = await deployments.put(environment, params.deploymentId, body.url);
      await plan?.apply();
      return showDeployment(row);
    },
    async GetDeployment({ caller }, { params }) {
      return showDeployment((await reachDeployment(caller, params, "deployments.get")).row);
    },
    async PromoteDeployment({ caller }, { params }) {
      const { project, row } = await reachDeployment(caller, params, "deployments.promote");
      return showDeployment(await deployments.promote(project.no, row.id));
    },
    async RetireDeployment({ caller }, { params }) {
      const { project, row } = await reachDeployment(caller, params, "deployments.retire");
      return showDeployment(await deployments.retire(project.no, row.id));
    },
    async ListEnvironments({ caller }, { params, query }) {
      const project = await access.application(caller, params.applicationId, "environments.list");
      const { items, total } = await environments.list(project.no, { offset: query.offset ?? 0, limit: query.limit ?? PAGE });
      return { items: items.map(showEnvironment), total };
    },
    async CreateEnvironment({ caller, idempotency }, { params, body }) {
      const project = await access.application(caller, params.applicationId, null);
      access.demand(caller, "environments.create", environmentResource(project, body.slug), environmentMissing);
      return showEnvironment(await environments.create(project.no, body.slug, idempotency));
    },
    async GetEnvironment({ caller }, { params }) {
      return showEnvironment(await reachEnvironment(caller, params, params.environmentId, "environments.get"));
    },
    async GetSigningSecret({ caller }, { params }) {
      return showSecrets(
        await environments.secrets(await reachEnvironment(caller, params, params.environmentId, "environments.secrets.read")),
      );
    },
    async RotateSigningSecret({ caller }, { params }) {
      return showSecrets(
        await environments.rotate(await reachEnvironment(caller, params, params.environmentId, "environments.secrets.rotate")),
      );
    },
    async ActivateSigningSecret({ caller }, { params }) {
      return showSecrets(
        await environments.activate(await reachEnvironment(caller, params, params.environmentId, "environments.secrets.rotate")),
      );
    },
  };
}
