/** Looks at a cluster's database and says what is well and what is not: `millrace doctor`. */
import { examine } from "../store/examine.ts";
import { migrations } from "../store/migrate.ts";
import type { NodeRow } from "../store/types.ts";
import { type Finding, judge } from "./rules.ts";

export type { Finding } from "./rules.ts";

export interface Diagnosis {
  findings: Finding[];
  nodes: NodeRow[];
}

/** Looks once; rejects with the Fault `unavailable` when the database can't be reached. */
export async function diagnose(url: string, poolSize: number): Promise<Diagnosis> {
  const seen = await examine(url);
  return { findings: judge(seen, { schema: migrations.at(-1)?.version ?? 0, poolSize }), nodes: seen.nodes };
}
