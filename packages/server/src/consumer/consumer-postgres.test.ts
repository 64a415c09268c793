import { consumerSuite } from "./consumer.suite.ts";

consumerSuite("postgres");
