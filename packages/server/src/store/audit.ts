/**
 * Cold verbs of the audit log (A7). A call is kept under the organization that it named and that its key may know of, else under the key's
 * own; nothing of a log is ever changed, and after 30 days it goes.
 */
import type { Tx, Value } from "../db/db.ts";

const KEPT_MS = 30 * 86_400_000;
/** Rows of one INSERT: within the parameters that an engine takes. */
const CHUNK = 50;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A call as it is kept; `at` in milliseconds since 1970, `code` of the error it was refused with, `null` where it was not. */
export interface AuditRow {
  no: number;
  /** The name of the project it was about; `null`: the organization itself. */
  project: string | null;
  at: number;
  keyId: string;
  keyName: string;
  operation: string;
  path: string;
  address: string;
  status: number;
  code: string | null;
  requestId: string;
}

/** A call to keep. What it named, by id or name, where it named any; `projectNo` is its key's project (`null`: the installation's key). */
export interface AuditedCall extends Omit<AuditRow, "no" | "at" | "project"> {
  about: { organization: string | null; project: string | null };
  projectNo: number | null;
}

interface Place {
  organizationNo: number;
  project: string | null;
}

const columnOf = (reference: string): "id" | "name" => (UUID.test(reference) ? "id" : "name");

/** What a call named, as far as it exists and is one alone. */
async function namedBy(tx: Tx, { organization, project }: AuditedCall["about"]): Promise<Place | null> {
  let within: number | null = null;
  if (organization !== null) {
    const [row] = await tx.query<{ no: number }>(`SELECT no FROM organization WHERE ${columnOf(organization)} = :organization`, {
      organization,
    });
    if (row === undefined) return null;
    within = row.no;
  }
  if (project === null) return within === null ? null : { organizationNo: within, project: null };
  const rows = await tx.query<{ organization_no: number; name: string }>(
    `SELECT organization_no, name FROM project WHERE ${columnOf(project)} = :project${within === null ? "" : " AND organization_no = :within"}
     LIMIT 2`,
    { project, ...(within === null ? {} : { within }) },
  );
  const [row] = rows;
  if (row !== undefined && rows.length === 1) return { organizationNo: row.organization_no, project: row.name };
  return within === null ? null : { organizationNo: within, project: null };
}

/** The project of the key; the installation's first organization for a key that belongs to none. */
async function ownOf(tx: Tx, projectNo: number | null): Promise<Place | null> {
  const [row] =
    projectNo === null
      ? await tx.query<{ no: number | null; name: null }>("SELECT min(no) AS no, NULL AS name FROM organization")
      : await tx.query<{ no: number; name: string }>("SELECT organization_no AS no, name FROM project WHERE no = :projectNo", {
          projectNo,
        });
  return row === undefined || row.no === null ? null : { organizationNo: row.no, project: row.name };
}

/** Keeps calls in their order; one whose key belongs to nothing any more is not kept. */
async function addAudit(tx: Tx, calls: readonly AuditedCall[]): Promise<void> {
  const kept: { call: AuditedCall; place: Place }[] = [];
  for (const call of calls) {
    const place = (await namedBy(tx, call.about)) ?? (await ownOf(tx, call.projectNo));
    if (place !== null) kept.push({ call, place });
  }
  const numbers = await tx.sequence(kept.length);
  for (let from = 0; from < kept.length; from += CHUNK) {
    const params: Record<string, Value> = { at: tx.now };
    const tuples = kept.slice(from, from + CHUNK).map(({ call, place }, i) => {
      const { keyId, keyName, operation, path, address, status, code, requestId } = call;
      const no = numbers[from + i] ?? null;
      const values = { no, ...place, keyId, keyName, operation, path, address, status, code, requestId };
      for (const [name, value] of Object.entries(values)) params[`${name}${i}`] = value;
      return `(:at, ${Object.keys(values)
        .map((name) => `:${name}${i}`)
        .join(", ")})`;
    });
    await tx.query(
      `INSERT INTO audit (at, no, organization_no, project, key_id, key_name, operation, path, address, status, code, request_id)
       VALUES ${tuples.join(", ")}`,
      params,
    );
  }
}

/** Up to `limit` calls of an organization, newest first, before the one numbered `before`; `next` to go on from, `null` at the end. */
async function listAudit(
  tx: Tx,
  organizationNo: number,
  { before, limit }: { before: number | null; limit: number },
): Promise<{ calls: AuditRow[]; next: number | null }> {
  const calls = await tx.query<AuditRow>(
    `SELECT no, project, at, key_id AS "keyId", key_name AS "keyName", operation, path, address, status, code, request_id AS "requestId" FROM audit
     WHERE organization_no = :organizationNo${before === null ? "" : " AND no < :before"} ORDER BY organization_no DESC, no DESC LIMIT :limit`,
    { organizationNo, limit, ...(before === null ? {} : { before }) },
  );
  return { calls, next: calls.length < limit ? null : (calls.at(-1)?.no ?? null) };
}

/** Removes up to `limit` calls whose time is over; answers how many. */
async function expireAudit(tx: Tx, limit: number): Promise<number> {
  const rows = await tx.query(
    "DELETE FROM audit WHERE no IN (SELECT no FROM audit WHERE at <= :until ORDER BY at LIMIT :limit) RETURNING no",
    {
      until: tx.now - KEPT_MS,
      limit,
    },
  );
  return rows.length;
}

/** Cold verbs: audit. */
export const auditVerbs = { addAudit, listAudit, expireAudit };
