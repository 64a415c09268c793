import { pullSuite } from "./pull.suite.ts";

pullSuite("postgres");
