/**
 * Cold verbs of environments: their rows and their signing secrets (C8). A prepared secret takes over by the clock: whoever reads
 * decides by `next_at`, so nothing has to happen at that instant. Secrets are sealed; only the verbs that say so answer them.
 */
import { Fault } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { nextNo } from "./identity.ts";

/** A prepared secret takes over after this long, unless it is activated before (C8). */
const SWITCH_MS = 24 * 3_600_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An environment without its secrets. */
export interface EnvironmentRow {
  no: number;
  id: string;
  projectNo: number;
  slug: string;
  createdAt: number;
}

/** Sealed secrets: the one in force, and the prepared one with the milliseconds until it takes over and that instant. */
export interface SecretsRow {
  environmentId: string;
  secret: string;
  next: { secret: string; inMs: number; at: number } | null;
}

const environmentOf = (row: Row): EnvironmentRow => ({
  no: Number(row.no),
  id: String(row.id),
  projectNo: Number(row.project_no),
  slug: String(row.slug),
  createdAt: Number(row.created_at),
});
const COLUMNS = "no, id, project_no, slug, created_at";
const missing = (): Fault => new Fault("environment_not_found", "there is no such environment");

/** Tells the lanes of every node that what is served, or by what it is signed, has changed. */
export async function servingChanged(tx: Tx): Promise<void> {
  await tx.query("UPDATE serving_version SET n = n + 1");
}

/** The secrets of an environment's row as they are in force now; throws when it has none yet. */
export function secretsOf(row: Row, now: number): SecretsRow {
  if (row.secret === null || row.secret === undefined) throw new Error("an environment has no secret yet");
  const environmentId = String(row.id);
  const at = row.next_at === null ? null : Number(row.next_at);
  if (row.next_secret === null || at === null) return { environmentId, secret: String(row.secret), next: null };
  if (at <= now) return { environmentId, secret: String(row.next_secret), next: null };
  return { environmentId, secret: String(row.secret), next: { secret: String(row.next_secret), inMs: at - now, at } };
}

async function locked(tx: Tx, no: number): Promise<Row> {
  const [row] = await tx.query("UPDATE environment SET slug = slug WHERE no = :no RETURNING id, secret, next_secret, next_at", { no });
  if (row === undefined) throw missing();
  return row;
}

async function write(tx: Tx, no: number, secrets: SecretsRow): Promise<SecretsRow> {
  const { secret, next } = secrets;
  await tx.query("UPDATE environment SET secret = :secret, next_secret = :nextSecret, next_at = :at WHERE no = :no", {
    no,
    secret,
    nextSecret: next?.secret ?? null,
    at: next?.at ?? null,
  });
  await servingChanged(tx);
  return secrets;
}

/** Every cold verb of environments. */
export const environmentVerbs = {
  /** Makes an environment with its (sealed) secret. Throws `name_taken`, `project_not_found`. */
  async createEnvironment(tx: Tx, given: { id: string; projectNo: number; slug: string; secret: string }): Promise<EnvironmentRow> {
    const no = await nextNo(tx);
    const [project] = await tx.query("SELECT no FROM project WHERE no = :no", { no: given.projectNo });
    if (project === undefined) throw new Fault("project_not_found", "there is no such project");
    const [row] = await tx.query(
      `INSERT INTO environment (no, id, project_no, slug, secret, created_at) VALUES (:no, :id, :projectNo, :slug, :secret, :now)
       ON CONFLICT (project_no, slug) DO NOTHING RETURNING ${COLUMNS}`,
      { ...given, no, now: tx.now },
    );
    if (row === undefined) throw new Fault("name_taken", `there is an environment named ${given.slug} already`);
    return environmentOf(row);
  },

  /** By UUID or slug; `null` when the project has none. */
  async findEnvironment(tx: Tx, projectNo: number, reference: string): Promise<EnvironmentRow | null> {
    const column = UUID.test(reference) ? "id" : "slug";
    const [row] = await tx.query(`SELECT ${COLUMNS} FROM environment WHERE project_no = :projectNo AND ${column} = :reference`, {
      projectNo,
      reference,
    });
    return row === undefined ? null : environmentOf(row);
  },

  /** Up to `limit` environments of a project by slug, after the first `offset`, and how many there are. */
  async listEnvironments(
    tx: Tx,
    projectNo: number,
    page: { offset: number; limit: number },
  ): Promise<{ items: EnvironmentRow[]; total: number }> {
    const [count] = await tx.query("SELECT count(*) AS n FROM environment WHERE project_no = :projectNo", { projectNo });
    const rows = await tx.query(
      `SELECT ${COLUMNS} FROM environment WHERE project_no = :projectNo ORDER BY slug LIMIT :limit OFFSET :offset`,
      { projectNo, ...page },
    );
    return { items: rows.map(environmentOf), total: Number(count?.n ?? 0) };
  },

  /** The environment's secrets, sealed; `fresh` becomes its secret if it has none yet. Throws `environment_not_found`. */
  async environmentSecrets(tx: Tx, no: number, fresh: string): Promise<SecretsRow> {
    const row = await locked(tx, no);
    if (row.secret !== null) return secretsOf(row, tx.now);
    return write(tx, no, { environmentId: String(row.id), secret: fresh, next: null });
  },

  /** Prepares `sealed` to take over in 24 hours; one that was prepared before is replaced. */
  async prepareSecret(tx: Tx, no: number, sealed: string): Promise<SecretsRow> {
    const secrets = secretsOf(await locked(tx, no), tx.now);
    return write(tx, no, { ...secrets, next: { secret: sealed, inMs: SWITCH_MS, at: tx.now + SWITCH_MS } });
  },

  /** Lets the prepared secret take over now. Throws `invalid_request` when there is none. */
  async activateSecret(tx: Tx, no: number): Promise<SecretsRow> {
    const secrets = secretsOf(await locked(tx, no), tx.now);
    if (secrets.next === null) throw new Fault("invalid_request", "there is no prepared secret: rotate first");
    return write(tx, no, { ...secrets, secret: secrets.next.secret, next: null });
  },
};
