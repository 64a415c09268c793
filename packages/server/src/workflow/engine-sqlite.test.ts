import { engineSuite } from "./engine.suite.ts";
import { recoverySuite } from "./recovery.suite.ts";

engineSuite("sqlite");
recoverySuite("sqlite");
