/**
 * Cold verbs: organizations, projects, API keys, and the sweep of idempotency keys. Names are unique where they live and never change.
 * Whatever makes or removes something holds the counter's row until it commits, so that a check made before stays true.
 */
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";

export interface OrganizationRecord {
  no: number;
  id: string;
  name: string;
  createdAt: number;
}

export interface ProjectRecord extends OrganizationRecord {
  organization: OrganizationRecord;
}

/** A key without its text, which nobody keeps. `expiresInMs` counts from the read; negative once expired. */
export interface KeyRecord {
  no: number;
  id: string;
  name: string;
  projectNo: number | null;
  /** The slug of the environment that its calls mean where they name none; `null`: `production`. */
  environment: string | null;
  statements: { allow: string[]; on: string[] }[];
  expiresAt: number | null;
  expiresInMs: number | null;
  lastUsedAt: number | null;
  createdAt: number;
}

/** How old `last_used_at` gets before a use is written again. */
const LAST_USED_STEP_MS = 60_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The next short number, one series for everything that is numbered; locks the counter until the commit. */
export async function nextNo(tx: Tx): Promise<number> {
  const [row] = await tx.query("UPDATE queue_counter SET last = last + 1 RETURNING last");
  return Number(row?.last);
}

/** Locks the counter until the commit. */
export const lockCounter = (tx: Tx) => tx.query("UPDATE queue_counter SET last = last");

const ORGANIZATION = "no, id, name, created_at";
const PROJECT = `p.no AS no, p.id AS id, p.name AS name, p.created_at AS created_at,
  o.no AS o_no, o.id AS o_id, o.name AS o_name, o.created_at AS o_created_at FROM project p JOIN organization o ON o.no = p.organization_no`;
const KEY = "no, id, name, project_no, environment, statements, expires_at, last_used_at, created_at";

type Fields = Record<string, unknown>;
const organizationOf = (row: Fields): OrganizationRecord => ({
  no: Number(row.no),
  id: String(row.id),
  name: String(row.name),
  createdAt: Number(row.created_at),
});
const projectOf = (row: Fields): ProjectRecord => ({
  ...organizationOf(row),
  organization: organizationOf({ no: row.o_no, id: row.o_id, name: row.o_name, created_at: row.o_created_at }),
});
const instant = (value: unknown): number | null => (value === null ? null : Number(value));
const keyOf = (row: Fields, now: number): KeyRecord => ({
  no: Number(row.no),
  id: String(row.id),
  name: String(row.name),
  projectNo: instant(row.project_no),
  environment: row.environment === null ? null : String(row.environment),
  statements: JSON.parse(String(row.statements)),
  expiresAt: instant(row.expires_at),
  expiresInMs: row.expires_at === null ? null : Number(row.expires_at) - now,
  lastUsedAt: instant(row.last_used_at),
  createdAt: Number(row.created_at),
});

async function organizationBy(tx: Tx, reference: string): Promise<OrganizationRecord | null> {
  const column = UUID.test(reference) ? "id" : "name";
  const [row] = await tx.query(`SELECT ${ORGANIZATION} FROM organization WHERE ${column} = :reference`, { reference });
  return row === undefined ? null : organizationOf(row);
}

/** Every cold verb of identity. */
export const identityVerbs = {
  /** Throws `name_taken`. */
  async createOrganization(tx: Tx, given: { id: string; name: string }): Promise<OrganizationRecord> {
    const no = await nextNo(tx);
    const [taken] = await tx.query("SELECT no FROM organization WHERE name = :name", { name: given.name });
    if (taken !== undefined) throw new Fault("name_taken", `there is an organization named ${given.name} already`);
    await tx.query("INSERT INTO organization (no, id, name, created_at) VALUES (:no, :id, :name, :now)", { ...given, no, now: tx.now });
    return { ...given, no, createdAt: tx.now };
  },

  /** By id or name; `null` when there is none. */
  findOrganization: (tx: Tx, reference: string): Promise<OrganizationRecord | null> => organizationBy(tx, reference),

  /** Up to `limit` organizations in the order of their making, after the one numbered `after`. */
  async listOrganizations(tx: Tx, given: { after: number; limit: number }): Promise<OrganizationRecord[]> {
    const rows = await tx.query(`SELECT ${ORGANIZATION} FROM organization WHERE no > :after ORDER BY no LIMIT :limit`, given);
    return rows.map(organizationOf);
  },

  /** Throws `not_empty` while it holds projects. */
  async deleteOrganization(tx: Tx, no: number): Promise<void> {
    await lockCounter(tx);
    const [project] = await tx.query("SELECT no FROM project WHERE organization_no = :no LIMIT 1", { no });
    if (project !== undefined) throw new Fault("not_empty", "the organization still holds projects: delete them first");
    await tx.query("DELETE FROM organization WHERE no = :no", { no });
  },

  /** Makes a project and its `production` environment. Throws `name_taken`, `organization_not_found`. */
  async createProject(tx: Tx, given: { id: string; environmentId: string; name: string; organizationNo: number }): Promise<ProjectRecord> {
    const { id, name, organizationNo } = given;
    const no = await nextNo(tx);
    const environmentNo = await nextNo(tx);
    const [organization] = await tx.query(`SELECT ${ORGANIZATION} FROM organization WHERE no = :organizationNo`, { organizationNo });
    if (organization === undefined) throw new Fault("organization_not_found", "there is no such organization");
    const [taken] = await tx.query("SELECT no FROM project WHERE organization_no = :organizationNo AND name = :name", {
      organizationNo,
      name,
    });
    if (taken !== undefined) throw new Fault("name_taken", `there is a project named ${name} already`);
    await tx.query("INSERT INTO project (no, id, organization_no, name, created_at) VALUES (:no, :id, :organizationNo, :name, :now)", {
      no,
      id,
      organizationNo,
      name,
      now: tx.now,
    });
    await tx.query(
      "INSERT INTO environment (no, id, project_no, slug, created_at) VALUES (:environmentNo, :environmentId, :no, 'production', :now)",
      { environmentNo, environmentId: given.environmentId, no, now: tx.now },
    );
    return { no, id, name, createdAt: tx.now, organization: organizationOf(organization) };
  },

  /** An organization and, in it, a project, each by id or name; `null` for what there is not. */
  async findProject(
    tx: Tx,
    organization: string,
    project: string,
  ): Promise<{ organization: OrganizationRecord | null; project: ProjectRecord | null }> {
    const found = await organizationBy(tx, organization);
    const column = UUID.test(project) ? "id" : "name";
    const [row] = await tx.query(`SELECT ${PROJECT} WHERE p.organization_no = :no AND p.${column} = :project`, {
      no: found?.no ?? -1,
      project,
    });
    return { organization: found, project: row === undefined ? null : projectOf(row) };
  },

  /** Up to two projects that an id or a name alone may mean, or that there are (`null`); of one project when `projectNo` is given. */
  async findApplications(tx: Tx, reference: string | null, projectNo: number | null): Promise<ProjectRecord[]> {
    const named = reference === null ? "" : ` AND p.${UUID.test(reference) ? "id" : "name"} = :reference`;
    const one = projectNo === null ? "" : " AND p.no = :projectNo";
    const rows = await tx.query(`SELECT ${PROJECT} WHERE 1 = 1${named}${one} ORDER BY p.no LIMIT 2`, {
      ...(reference === null ? {} : { reference }),
      ...(projectNo === null ? {} : { projectNo }),
    });
    return rows.map(projectOf);
  },

  /** A project by its number. */
  async projectByNo(tx: Tx, no: number): Promise<ProjectRecord | null> {
    const [row] = await tx.query(`SELECT ${PROJECT} WHERE p.no = :no`, { no });
    return row === undefined ? null : projectOf(row);
  },

  /** Up to `limit` projects of an organization in the order of their making, after the one numbered `after`. */
  async listProjects(tx: Tx, given: { organizationNo: number; after: number; limit: number }): Promise<ProjectRecord[]> {
    const rows = await tx.query(
      `SELECT ${PROJECT} WHERE p.organization_no = :organizationNo AND p.no > :after ORDER BY p.no LIMIT :limit`,
      given,
    );
    return rows.map(projectOf);
  },

  /** Deletes a project with its environments and keys; answers the ids of the keys. Throws `not_empty` while it holds queues, apps or topics. */
  async deleteProject(tx: Tx, no: number): Promise<string[]> {
    await lockCounter(tx);
    const [app] = await tx.query("SELECT no FROM app WHERE project_no = :no LIMIT 1", { no });
    if (app !== undefined) throw new Fault("not_empty", "the project still holds apps: delete them first");
    const [queue] = await tx.query(
      "SELECT no FROM queue WHERE project_no = :no UNION SELECT no FROM placed_queue WHERE project_no = :no LIMIT 1",
      {
        no,
      },
    );
    if (queue !== undefined) throw new Fault("not_empty", "the project still holds queues: delete them first");
    const [topic] = await tx.query("SELECT no FROM topic WHERE project_no = :no AND ended_at IS NULL LIMIT 1", { no });
    if (topic !== undefined) throw new Fault("not_empty", "the project still holds topics: delete them first");
    const keys = await tx.query("DELETE FROM api_key WHERE project_no = :no RETURNING id", { no });
    await tx.query("DELETE FROM deployment WHERE project_no = :no", { no });
    await tx.query("DELETE FROM environment WHERE project_no = :no", { no });
    await tx.query("DELETE FROM quota WHERE project_no = :no", { no });
    await tx.query("DELETE FROM project WHERE no = :no", { no });
    return keys.map((row) => String(row.id));
  },

  /** Stores a key by its hash. `expiresAt` in milliseconds since 1970. Throws `project_not_found`. */
  async createKey(
    tx: Tx,
    given: {
      id: string;
      projectNo: number | null;
      name: string;
      hash: string;
      statements: readonly { allow: readonly string[]; on: readonly string[] }[];
      expiresAt: number | null;
      environment?: string | undefined;
    },
  ): Promise<KeyRecord> {
    const no = await nextNo(tx);
    if (given.projectNo !== null) {
      const [project] = await tx.query("SELECT no FROM project WHERE no = :no", { no: given.projectNo });
      if (project === undefined) throw new Fault("project_not_found", "there is no such project");
    }
    const environment = given.environment ?? null;
    if (environment !== null) {
      const [known] = await tx.query("SELECT no FROM environment WHERE project_no = :project AND slug = :environment", {
        project: given.projectNo,
        environment,
      });
      if (known === undefined) throw new Fault("environment_not_found", "environment: there is no such environment in the project");
    }
    const [row] = await tx.query(
      `INSERT INTO api_key (no, id, project_no, environment, name, hash, statements, expires_at, last_used_at, created_at)
       VALUES (:no, :id, :projectNo, :environment, :name, :hash, :statements, :expiresAt, NULL, :now) RETURNING ${KEY}`,
      { ...given, environment, no, statements: JSON.stringify(given.statements), now: tx.now },
    );
    return keyOf(row as Fields, tx.now);
  },

  /**
   * Stores a key of the whole installation unless it is there; with `onlyFirst` unless the installation has any key. Answers whether
   * it was stored.
   */
  async ensureKey(
    tx: Tx,
    given: {
      id: string;
      name: string;
      hash: string;
      statements: readonly { allow: readonly string[]; on: readonly string[] }[];
      onlyFirst: boolean;
    },
  ): Promise<boolean> {
    const { onlyFirst, ...key } = given;
    await lockCounter(tx);
    const present = onlyFirst
      ? await tx.query("SELECT no FROM api_key WHERE project_no IS NULL LIMIT 1")
      : await tx.query("SELECT no FROM api_key WHERE hash = :hash", { hash: key.hash });
    if (present.length > 0) return false;
    await identityVerbs.createKey(tx, { ...key, projectNo: null, expiresAt: null });
    return true;
  },

  /** A key by the hash of its text or by its id, with the `<organization>/<project>` that it belongs to (`null`: the installation's). */
  async findKey(tx: Tx, by: { hash: string } | { id: string }): Promise<(KeyRecord & { within: string | null }) | null> {
    const [column, value] = "hash" in by ? ["hash", by.hash] : ["id", by.id];
    const [row] = await tx.query(
      `SELECT k.no AS no, k.id AS id, k.name AS name, k.project_no AS project_no, k.environment AS environment, k.statements AS statements, k.expires_at AS expires_at,
         k.last_used_at AS last_used_at, k.created_at AS created_at, o.name AS o_name, p.name AS p_name
       FROM api_key k LEFT JOIN project p ON p.no = k.project_no LEFT JOIN organization o ON o.no = p.organization_no
       WHERE k.${column} = :value`,
      { value },
    );
    if (row === undefined) return null;
    return { ...keyOf(row, tx.now), within: row.project_no === null ? null : `${row.o_name}/${row.p_name}` };
  },

  /** Up to `limit` keys of a project in the order of their making, after the one numbered `after`. */
  async listKeys(tx: Tx, given: { projectNo: number; after: number; limit: number }): Promise<KeyRecord[]> {
    const rows = await tx.query(`SELECT ${KEY} FROM api_key WHERE project_no = :projectNo AND no > :after ORDER BY no LIMIT :limit`, given);
    return rows.map((row) => keyOf(row, tx.now));
  },

  /** Whether there was such a key in the project. */
  async deleteKey(tx: Tx, given: { projectNo: number; id: string }): Promise<boolean> {
    const rows = await tx.query("DELETE FROM api_key WHERE project_no = :projectNo AND id = :id RETURNING no", given);
    return rows.length > 0;
  },

  /** Notes that a key was used, at most once a minute. */
  async touchKey(tx: Tx, no: number): Promise<void> {
    await tx.query("UPDATE api_key SET last_used_at = :now WHERE no = :no AND (last_used_at IS NULL OR last_used_at <= :before)", {
      no,
      now: tx.now,
      before: tx.now - LAST_USED_STEP_MS,
    });
  },

  /** Removes up to `limit` idempotency keys whose 48 hours are over (Q12); answers how many. */
  async expireIdempotency(tx: Tx, limit: number): Promise<number> {
    const rows = await tx.query(
      `DELETE FROM idempotency WHERE (scope, key) IN (SELECT scope, key FROM idempotency WHERE until <= :now ORDER BY until LIMIT :limit)
       RETURNING key`,
      { now: tx.now, limit },
    );
    return rows.length;
  },

  /** The first 12 characters of every stored secret, each once: what `Vault.check` wants at start-up. */
  async sealedUnder(tx: Tx): Promise<string[]> {
    const rows = await tx.query(
      `SELECT DISTINCT substr(secret, 1, 12) AS head FROM subscription WHERE secret <> ''
       UNION SELECT DISTINCT substr(previous_secret, 1, 12) FROM subscription WHERE previous_secret IS NOT NULL
       UNION SELECT DISTINCT substr(secret, 1, 12) FROM environment WHERE secret IS NOT NULL
       UNION SELECT DISTINCT substr(next_secret, 1, 12) FROM environment WHERE next_secret IS NOT NULL
       UNION SELECT DISTINCT substr(secret, 1, 12) FROM topic_subscription WHERE secret IS NOT NULL
       UNION SELECT DISTINCT substr(secret, 1, 12) FROM app WHERE secret IS NOT NULL
       UNION SELECT DISTINCT substr(previous_secret, 1, 12) FROM app WHERE previous_secret IS NOT NULL`,
    );
    return rows.map((row) => String(row.head));
  },
};
