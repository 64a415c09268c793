import { messagesSuite } from "./messages.suite.ts";

messagesSuite("databases");
