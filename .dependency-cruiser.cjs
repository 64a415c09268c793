// The house's layers: imports point down. See docs/architecture.md.
const room = (name) => `^packages/server/src/${name}/`;
const forbid = (name, from, to, comment) => ({
  name,
  severity: "error",
  comment,
  from: { path: from, pathNot: "\\.(test|suite)\\.ts$" },
  to: { path: to },
});
module.exports = {
  forbidden: [
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } } },
    forbid("contract-stands-alone", "^packages/contract/", "^packages/(sdk|server|cli|testkit)/", "the contract imports nothing of ours"),
    {
      name: "sdk-carries-only-wire",
      severity: "error",
      comment: "what is published has no dependency: of the contract it takes the pure wire, and nothing of any runtime",
      from: { path: "^packages/sdk/src/", pathNot: "\\.(test|suite|fixture)\\.ts$" },
      to: { pathNot: "^packages/sdk/src/|^packages/contract/src/wire/" },
    },
    forbid("server-below-cli", "^packages/server/", "^packages/(sdk|cli|testkit)/", "the server knows no command line and no client"),
    forbid("http-never-touches-store", room("http"), "^packages/server/src/(store|db)/(?!types\\.ts)", "handlers call the noun folders"),
    forbid(
      "delivery-knows-no-nouns",
      room("delivery"),
      "^packages/server/src/(queue|subscription|consumer|schedule|provision|deployment|topic|workflow|identity|http|store|db)/",
      "the engine gets requests, gives outcomes",
    ),
    forbid(
      "nouns-below-http",
      "^packages/server/src/(queue|subscription|consumer|schedule|provision|deployment|topic|workflow|identity|delivery|store|db)/",
      room("http"),
      "imports point down",
    ),
    forbid(
      "store-below-nouns",
      "^packages/server/src/(store|db)/",
      "^packages/server/src/(queue|subscription|consumer|schedule|provision|deployment|topic|workflow|identity|delivery)/(?!caller\\.ts)",
      "imports point down",
    ),
    forbid(
      "cluster-below-nouns",
      room("cluster"),
      "^packages/server/src/(queue|subscription|consumer|schedule|provision|deployment|topic|workflow|identity|http|db)/",
      "ownership knows keys and slots, not what is owned",
    ),
    forbid("store-below-cluster", "^packages/server/src/(store|db|delivery)/", room("cluster"), "imports point down"),
    forbid("db-below-store", room("db"), room("store"), "the port knows no verbs"),
    {
      name: "rules-are-pure",
      severity: "error",
      comment: "rules.ts decides, from the contract and types alone",
      from: { path: "rules\\.ts$" },
      to: { pathNot: "^packages/contract/|rules\\.ts$|types\\.ts$" },
    },
    {
      name: "nouns-never-touch-db",
      severity: "error",
      from: {
        path: "^packages/server/src/(queue|subscription|consumer|schedule|provision|deployment|topic|workflow|identity|delivery|http)/",
        pathNot: "\\.(test|suite)\\.ts$",
      },
      to: { path: room("db") },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(^|/)dist/" },
    tsConfig: { fileName: "tsconfig.base.json" },
    enhancedResolveOptions: { conditionNames: ["@millrace/source", "import", "default"], exportsFields: ["exports"] },
  },
};
