import { loadSuite } from "./load.suite.ts";

loadSuite("postgres");
