import { pushSuite } from "./push.suite.ts";

pushSuite("postgres");
