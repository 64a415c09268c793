import { identitySuite } from "./identity.suite.ts";

identitySuite("sqlite");
identitySuite("postgres");
