import { queuesSuite } from "./queues.suite.ts";

queuesSuite("databases");
