import { pushSuite } from "./push.suite.ts";

pushSuite("sqlite");
