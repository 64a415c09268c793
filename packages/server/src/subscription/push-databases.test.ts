import { pushSuite } from "./push.suite.ts";

pushSuite("databases");
