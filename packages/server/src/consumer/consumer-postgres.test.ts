import { consumerSuite } from "./consumer.suite.ts";
import { consumerNodesSuite } from "./nodes.suite.ts";

consumerSuite("postgres");
consumerNodesSuite("postgres");
