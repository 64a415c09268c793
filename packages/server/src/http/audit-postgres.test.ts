import { auditSuite } from "./audit.suite.ts";

auditSuite("postgres");
