import { explainSuite } from "./explain.suite.ts";

explainSuite("postgres");
