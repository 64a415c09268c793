import { topicQueuesSuite } from "./queues.suite.ts";

topicQueuesSuite("postgres");
