import { startSuite } from "./start.suite.ts";

startSuite("databases");
