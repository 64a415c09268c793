import { runResultSuite } from "./run-results.suite.ts";

runResultSuite("databases");
