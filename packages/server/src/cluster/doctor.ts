/** Looks at a cluster's databases and says what is well and what is not: `millrace doctor`. */
import { DEFAULT_DATABASE } from "../store/database-numbers.ts";
import { examine } from "../store/examine.ts";
import { migrations } from "../store/migrate.ts";
import type { NodeRow } from "../store/types.ts";
import { type Finding, identityOf, judge, partakersOf, unnamed } from "./rules.ts";

export type { Finding } from "./rules.ts";

/** What was found, each with the database that it is about. */
export interface Diagnosis {
  findings: (Finding & { database: string })[];
  nodes: (NodeRow & { database: string })[];
}

const about = (database: string, findings: readonly Finding[]) => findings.map((finding) => ({ ...finding, database }));

/** Looks once at each; rejects when the default database can't be reached. */
export async function diagnose(url: string, databases: Readonly<Record<string, string>>, poolSize: number): Promise<Diagnosis> {
  const expected = { schema: migrations.at(-1)?.version ?? 0, poolSize };
  const home = await examine(url);
  const missing = home.joined.map(({ name }) => name).filter((name) => !(name in databases));
  const findings = about(DEFAULT_DATABASE, [...identityOf(null, home), ...unnamed(missing), ...judge(home, expected)]);
  const nodes = home.nodes.map((node) => ({ ...node, database: DEFAULT_DATABASE }));
  const looks = Object.entries(databases).map(async ([database, at]): Promise<Diagnosis> => {
    try {
      const seen = await examine(at);
      const known = home.joined.find(({ name }) => name === database);
      const others = [...identityOf(known, seen), ...partakersOf(home.nodes, seen.nodes)];
      const found = about(database, [...others, ...judge(seen, expected)]);
      return { findings: found, nodes: seen.nodes.map((node) => ({ ...node, database })) };
    } catch (error) {
      const found = error instanceof Error ? error.message : String(error);
      const advice = "Its queues are refused until it is there; the others work on.";
      return { findings: about(database, [{ level: "bad", check: "server", found, advice }]), nodes: [] };
    }
  });
  const all = [{ findings, nodes }, ...(await Promise.all(looks))];
  return { findings: all.flatMap((each) => each.findings), nodes: all.flatMap((each) => each.nodes) };
}
