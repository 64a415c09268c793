import { waitingSuite } from "./waiting.suite.ts";

waitingSuite("databases");
