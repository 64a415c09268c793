import { loadSuite } from "./load.suite.ts";

loadSuite("sqlite");
