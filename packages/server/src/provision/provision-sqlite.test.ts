import { provisionSuite } from "./provision.suite.ts";

provisionSuite("sqlite");
