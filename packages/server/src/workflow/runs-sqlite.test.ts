import { runsSuite } from "./runs.suite.ts";

runsSuite("sqlite");
