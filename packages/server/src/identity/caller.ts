/** Who calls: an API key's reach (A5). Built by authentication once per request; `authorize` is the only reader. */
export interface Statement {
  /** Permission patterns such as `queues.messages.*`. */
  allow: readonly string[];
  /** Resource patterns such as `acme/shop/queues/orders-*`; see `docs/permissions.md`. */
  on: readonly string[];
}

export interface Caller {
  keyId: string;
  keyName: string;
  /** `null` for a key of the whole installation. */
  projectNo: number | null;
  /** `<organization>/<project>` of a project's key: it reaches nothing outside, whatever its statements say. `null` as above. */
  within: string | null;
  /** The slug of the environment that its calls mean where they name none; absent or `null`: `production`. */
  environment?: string | null;
  statements: readonly Statement[];
}

export interface OrganizationRow {
  no: number;
  id: string;
  name: string;
  createdAt: number;
}

export interface ProjectRow {
  no: number;
  id: string;
  name: string;
  organization: OrganizationRow;
  createdAt: number;
}
