import { runsSuite } from "./runs.suite.ts";

runsSuite("postgres");
