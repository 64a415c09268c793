import { lifeSuite } from "./life.suite.ts";

lifeSuite("databases");
