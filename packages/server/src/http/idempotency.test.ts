import { idempotencySuite } from "./idempotency.suite.ts";

idempotencySuite("sqlite");
idempotencySuite("postgres");
