/**
 * The audit log over HTTP (A7): the one place where calls are kept, around the operations that manage, and the operation that lists them.
 * Calls without a valid key are not kept: nobody is known who made them. A link that proves whose it is stands for a key.
 */
import type { IncomingMessage } from "node:http";
import { type Answer, isManagement, type OperationName, type Operations } from "@millrace/contract";
import type { Access } from "../identity/access.ts";
import type { Audit, AuditRow } from "../identity/audit.ts";
import type { Caller } from "../identity/caller.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import type { Handlers } from "./handler.ts";
import { outcomeOf } from "./problem.ts";

/** What is kept of a request besides its outcome. */
export interface AuditedRequest {
  caller: Caller;
  requestId: string;
  params: Record<string, string>;
  raw: IncomingMessage;
}

/** How much is kept of a path. */
const PATH = 500;
const LIMIT = 50;
/** Refused as if what they name did not exist: kept with the caller's own, or a stranger could write into any log. */
const HIDDEN = new Set(["organization_not_found", "project_not_found"]);

/** The path of a request as it is kept: what stands behind the `?` may be secret. */
const pathOf = ({ url }: IncomingMessage): string => (url?.split("?", 1)[0] ?? "").slice(0, PATH);
const addressOf = ({ socket }: IncomingMessage): string => socket.remoteAddress ?? "";

/** What a call named something by, before anybody checked it; what can name nothing is `null`. */
const named = (reference: unknown): string | null =>
  typeof reference === "string" && reference.length <= 200 && !reference.includes("\0") ? reference : null;

/** Runs a call and keeps what came of it before it is answered. */
export type Audited = <Result>(request: AuditedRequest, call: () => Promise<Result>) => Promise<Result>;

/** How calls of an operation are kept; `undefined` for those that are not. */
export function auditOf(audit: Audit | undefined, name: OperationName, status: number): Audited | undefined {
  return audit === undefined || !isManagement(name) ? undefined : auditedAs(audit, name, status);
}

/** Keeps calls under the name of an operation; `status` is the answer's when nothing was thrown. */
export function auditedAs(audit: Audit, name: string, status: number): Audited {
  const keep = ({ caller, requestId, params, raw }: AuditedRequest, outcome: { status: number; code: string | null }): Promise<void> => {
    const project = named(params.projectId ?? params.applicationId ?? raw.headers["x-account-id"]);
    const hidden = outcome.code !== null && HIDDEN.has(outcome.code);
    return audit.record({
      about: hidden ? { organization: null, project: null } : { organization: named(params.organizationId), project },
      projectNo: caller.projectNo,
      keyId: caller.keyId,
      keyName: caller.keyName,
      operation: name,
      path: pathOf(raw),
      address: addressOf(raw),
      requestId,
      ...outcome,
    });
  };
  return async (request, call) => {
    try {
      const result = await call();
      await keep(request, { status, code: null });
      return result;
    } catch (error) {
      await keep(request, outcomeOf(error));
      throw error;
    }
  };
}

/** Keeps what the holder of a subscription's link changed: in place of a key stand the subscription's id and `link`. */
export async function keepLink(
  audit: Audit | undefined,
  { raw, requestId }: Pick<AuditedRequest, "raw" | "requestId">,
  operation: "ConfirmByLink" | "UnsubscribeByLink",
  subscription: { id: string; projectNo: number },
): Promise<void> {
  await audit?.record({
    about: { organization: null, project: null },
    projectNo: subscription.projectNo,
    keyId: subscription.id,
    keyName: "link",
    operation,
    path: pathOf(raw),
    address: addressOf(raw),
    status: 200,
    code: null,
    requestId,
  });
}

const show = (row: AuditRow): Answer<Operations["ListAudit"]>["calls"][number] => ({
  at: new Date(row.at).toISOString(),
  key: { id: row.keyId, name: row.keyName },
  operation: row.operation,
  project: row.project,
  path: row.path,
  address: row.address,
  status: row.status,
  code: row.code,
  requestId: row.requestId,
});

/** The handler of the log. */
export function auditHandlers({ access, audit }: { access: Access; audit: Audit }): Pick<Handlers, "ListAudit"> {
  return {
    async ListAudit({ caller }, { params, query }) {
      const { no, name } = await access.organization(caller, params, null);
      const list = `audit of ${no}`;
      const place = decodeCursor(list, query.cursor);
      const page = { before: place === null ? null : Number(place[0]), limit: query.limit ?? LIMIT };
      const { rows, after } = await audit.list(no, page, ({ project }) =>
        access.allows(caller, "audit.list", project === null ? name : `${name}/${project}`),
      );
      return { calls: rows.map(show), nextCursor: after === null ? null : encodeCursor(list, [after]) };
    },
  };
}
