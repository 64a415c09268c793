/**
 * Cold verbs of deployments (C7): what was registered, which one of an environment is current, which are retired. An id names one
 * deployment of its project; it stays in its environment for good.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { type SecretsRow, secretsOf, servingChanged } from "./environment.ts";
import { nextNo } from "./identity.ts";

/** More deployments than this an environment can't have in service at once. */
const MOST_SERVING = 1_000;
/** So many retired ones of an environment are remembered, the last to be retired. */
const MOST_RETIRED = 1_000;

/** A deployment. `state`: `current` is called, `registered` serves messages pinned to it, `retired` serves nothing. */
export interface DeploymentRow {
  id: string;
  environmentNo: number;
  environment: string;
  url: string;
  state: "registered" | "current" | "retired";
  promotedAt: number | null;
  createdAt: number;
  updatedAt: number;
}

/** What an environment's lanes need: who is called, who may be pinned to, and by which secrets. */
export interface ServingRow {
  environmentNo: number;
  current: string | null;
  deployments: { id: string; url: string }[];
  secrets: SecretsRow;
}

const SELECT = `SELECT d.no AS no, d.id AS id, d.environment_no AS environment_no, e.slug AS slug, e.current_no AS current_no, d.url AS url,
  d.retired_at AS retired_at, d.promoted_at AS promoted_at, d.created_at AS created_at, d.updated_at AS updated_at
  FROM deployment d JOIN environment e ON e.no = d.environment_no`;

const instant = (value: unknown): number | null => (value === null ? null : Number(value));

function deploymentOf(row: Row): DeploymentRow {
  return {
    id: String(row.id),
    environmentNo: Number(row.environment_no),
    environment: String(row.slug),
    url: String(row.url),
    state: row.retired_at !== null ? "retired" : row.current_no === row.no ? "current" : "registered",
    promotedAt: instant(row.promoted_at),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

async function find(tx: Tx, projectNo: number, id: string): Promise<Row | undefined> {
  return (await tx.query(`${SELECT} WHERE d.project_no = :projectNo AND d.id = :id`, { projectNo, id }))[0];
}

async function found(tx: Tx, projectNo: number, id: string): Promise<Row> {
  const row = await find(tx, projectNo, id);
  if (row === undefined) throw new Fault("deployment_not_found", "there is no such deployment in this application");
  return row;
}

/** Every cold verb of deployments. */
export const deploymentVerbs = {
  /** Registers a deployment, or changes its URL; a retired one serves again. It is not called before it is promoted. */
  async putDeployment(tx: Tx, given: { projectNo: number; environmentNo: number; id: string; url: string }): Promise<DeploymentRow> {
    const { projectNo, environmentNo, id, url } = given;
    // The counter's row is locked first: of two registrations of one id at once, the second finds the first.
    const no = await nextNo(tx);
    const before = await find(tx, projectNo, id);
    if (before === undefined) {
      const [count] = await tx.query("SELECT count(*) AS n FROM deployment WHERE environment_no = :environmentNo AND retired_at IS NULL", {
        environmentNo,
      });
      if (Number(count?.n ?? 0) >= MOST_SERVING)
        throw invalid("deploymentId", `at most ${MOST_SERVING} deployments in service in one environment: retire some first`);
      await tx.query(
        `INSERT INTO deployment (no, project_no, environment_no, id, url, created_at, updated_at)
         VALUES (:no, :projectNo, :environmentNo, :id, :url, :now, :now)`,
        { no, projectNo, environmentNo, id, url, now: tx.now },
      );
      await tx.query(
        `DELETE FROM deployment WHERE environment_no = :environmentNo AND retired_at IS NOT NULL AND no NOT IN (SELECT no FROM deployment
         WHERE environment_no = :environmentNo AND retired_at IS NOT NULL ORDER BY retired_at DESC, no DESC LIMIT :most)`,
        { environmentNo, most: MOST_RETIRED },
      );
    } else {
      if (Number(before.environment_no) !== environmentNo)
        throw invalid("environment", `the deployment's own, which is ${String(before.slug)}: it can't change`);
      await tx.query("UPDATE deployment SET url = :url, retired_at = NULL, updated_at = :now WHERE no = :no", {
        no: before.no ?? null,
        url,
        now: tx.now,
      });
    }
    await servingChanged(tx);
    return deploymentOf(await found(tx, projectNo, id));
  },

  /** Makes a deployment the one that is called; promoting an older one is a rollback. A retired one is `deployment_not_found`. */
  async promoteDeployment(tx: Tx, projectNo: number, id: string): Promise<DeploymentRow> {
    const row = await found(tx, projectNo, id);
    if (row.retired_at !== null) throw new Fault("deployment_not_found", "the deployment is retired: register it again first");
    await tx.query("UPDATE environment SET current_no = :no WHERE no = :environmentNo", {
      no: row.no ?? null,
      environmentNo: row.environment_no ?? null,
    });
    await tx.query("UPDATE deployment SET promoted_at = :now, updated_at = :now WHERE no = :no", { no: row.no ?? null, now: tx.now });
    await servingChanged(tx);
    return deploymentOf(await found(tx, projectNo, id));
  },

  /** Ends a deployment's service. If it was the current one, nothing is deployed afterwards and messages wait. */
  async retireDeployment(tx: Tx, projectNo: number, id: string): Promise<DeploymentRow> {
    const row = await found(tx, projectNo, id);
    await tx.query("UPDATE environment SET current_no = NULL WHERE no = :environmentNo AND current_no = :no", {
      no: row.no ?? null,
      environmentNo: row.environment_no ?? null,
    });
    if (row.retired_at === null)
      await tx.query("UPDATE deployment SET retired_at = :now, updated_at = :now WHERE no = :no", { no: row.no ?? null, now: tx.now });
    await servingChanged(tx);
    return deploymentOf(await found(tx, projectNo, id));
  },

  /** By its id; throws `deployment_not_found`. */
  getDeployment: async (tx: Tx, projectNo: number, id: string): Promise<DeploymentRow> => deploymentOf(await found(tx, projectNo, id)),

  /** Up to `limit` deployments of an environment, newest first, after the first `offset`, and how many there are. */
  async listDeployments(
    tx: Tx,
    environmentNo: number,
    page: { offset: number; limit: number },
  ): Promise<{ items: DeploymentRow[]; total: number }> {
    const [count] = await tx.query("SELECT count(*) AS n FROM deployment WHERE environment_no = :environmentNo", { environmentNo });
    const rows = await tx.query(`${SELECT} WHERE d.environment_no = :environmentNo ORDER BY d.no DESC LIMIT :limit OFFSET :offset`, {
      environmentNo,
      ...page,
    });
    return { items: rows.map(deploymentOf), total: Number(count?.n ?? 0) };
  },

  /** What the lanes of an environment need; `null` when it is gone or has no secret yet. */
  async serving(tx: Tx, environmentNo: number): Promise<ServingRow | null> {
    const [row] = await tx.query(
      `SELECT e.id AS id, e.secret AS secret, e.next_secret AS next_secret, e.next_at AS next_at, d.id AS current
       FROM environment e LEFT JOIN deployment d ON d.no = e.current_no WHERE e.no = :environmentNo`,
      { environmentNo },
    );
    if (row === undefined || row.secret === null) return null;
    const live = await tx.query("SELECT id, url FROM deployment WHERE environment_no = :environmentNo AND retired_at IS NULL", {
      environmentNo,
    });
    return {
      environmentNo,
      current: row.current === null ? null : String(row.current),
      deployments: live.map(({ id, url }) => ({ id: String(id), url: String(url) })),
      secrets: secretsOf(row, tx.now),
    };
  },

  /** Rises with every change of what is served or who consumes. */
  async servingVersion(tx: Tx): Promise<number> {
    const [row] = await tx.query("SELECT n FROM serving_version");
    return Number(row?.n ?? 0);
  },
};
