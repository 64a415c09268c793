/** Looks at a cluster's databases and says what is well and what is not: `millrace doctor`. */
import { Fault } from "@millrace/contract";
import { DEFAULT_DATABASE } from "../store/database-numbers.ts";
import { examine } from "../store/examine.ts";
import { migrations } from "../store/migrate.ts";
import type { NodeRow } from "../store/types.ts";
import { type Finding, judge } from "./rules.ts";

export type { Finding } from "./rules.ts";

/** What was found, each with the database that it is about. */
export interface Diagnosis {
  findings: (Finding & { database: string })[];
  nodes: (NodeRow & { database: string })[];
}

async function look(database: string, url: string, poolSize: number): Promise<Diagnosis> {
  const seen = await examine(url);
  const findings = judge(seen, { schema: migrations.at(-1)?.version ?? 0, poolSize });
  return {
    findings: findings.map((finding) => ({ ...finding, database })),
    nodes: seen.nodes.map((node) => ({ ...node, database })),
  };
}

/** Looks once at each; rejects with the Fault `unavailable` when the default database can't be reached. */
export async function diagnose(url: string, databases: Readonly<Record<string, string>>, poolSize: number): Promise<Diagnosis> {
  const home = await look(DEFAULT_DATABASE, url, poolSize);
  const others = await Promise.all(
    Object.entries(databases).map(([database, at]) =>
      look(database, at, poolSize).catch((error: unknown): Diagnosis => {
        if (!(error instanceof Fault) || error.code !== "unavailable") throw error;
        const advice = "Its queues are refused until it is there; the others work on.";
        return { findings: [{ database, level: "bad", check: "server", found: "can't be reached", advice }], nodes: [] };
      }),
    ),
  );
  const all = [home, ...others];
  return { findings: all.flatMap(({ findings }) => findings), nodes: all.flatMap(({ nodes }) => nodes) };
}
