/**
 * Cold verbs of the audit log (A7). A call is kept under the organization that it named and that its key may know of, else under the key's
 * own; nothing of a log is ever changed, and after 30 days it goes.
 */
import type { Tx, Value } from "../db/db.ts";

const KEPT_MS = 30 * 86_400_000;
/** Rows of one INSERT: within the parameters that an engine takes. */
const CHUNK = 50;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A call as it is kept; `at` in milliseconds since 1970, `code` of the error it was refused with. */
export interface AuditRow {
  no: number;
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

/** A call to keep. `about` is what it named, by id or name; `projectNo` is its key's project (`null`: the installation's key). */
export interface AuditedCall extends Omit<AuditRow, "no" | "at"> {
  about: { organization: string } | { project: string } | null;
  projectNo: number | null;
}

/** The organization that a call was about, as far as it exists and is one alone. */
async function namedBy(tx: Tx, { about }: AuditedCall): Promise<number | null> {
  if (about === null) return null;
  const reference = "organization" in about ? about.organization : about.project;
  const column = UUID.test(reference) ? "id" : "name";
  const rows =
    "organization" in about
      ? await tx.query<{ no: number }>(`SELECT no FROM organization WHERE ${column} = :reference`, { reference })
      : await tx.query<{ no: number }>(`SELECT organization_no AS no FROM project WHERE ${column} = :reference LIMIT 2`, { reference });
  return rows.length === 1 ? (rows[0]?.no ?? null) : null;
}

/** The organization of the key; the installation's first for a key that belongs to none. */
async function ownOf(tx: Tx, { projectNo }: AuditedCall): Promise<number | null> {
  const [row] =
    projectNo === null
      ? await tx.query<{ no: number | null }>("SELECT min(no) AS no FROM organization")
      : await tx.query<{ no: number }>("SELECT organization_no AS no FROM project WHERE no = :projectNo", { projectNo });
  return row?.no ?? null;
}

/** Keeps calls in their order; one whose key belongs to nothing any more is not kept. */
async function addAudit(tx: Tx, calls: readonly AuditedCall[]): Promise<void> {
  const kept: { call: AuditedCall; organizationNo: number }[] = [];
  for (const call of calls) {
    const organizationNo = (await namedBy(tx, call)) ?? (await ownOf(tx, call));
    if (organizationNo !== null) kept.push({ call, organizationNo });
  }
  const numbers = await tx.sequence(kept.length);
  for (let from = 0; from < kept.length; from += CHUNK) {
    const params: Record<string, Value> = { at: tx.now };
    const tuples = kept.slice(from, from + CHUNK).map(({ call, organizationNo }, i) => {
      const { keyId, keyName, operation, path, address, status, code, requestId } = call;
      const no = numbers[from + i] ?? null;
      const values = { no, organizationNo, keyId, keyName, operation, path, address, status, code, requestId };
      for (const [name, value] of Object.entries(values)) params[`${name}${i}`] = value;
      const [first, second, ...rest] = Object.keys(values).map((name) => `:${name}${i}`);
      return `(${[first, second, ":at", ...rest].join(", ")})`;
    });
    await tx.query(
      `INSERT INTO audit (no, organization_no, at, key_id, key_name, operation, path, address, status, code, request_id)
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
    `SELECT no, at, key_id AS "keyId", key_name AS "keyName", operation, path, address, status, code, request_id AS "requestId" FROM audit
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
