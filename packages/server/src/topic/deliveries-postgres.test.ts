import { deliveriesSuite } from "./deliveries.suite.ts";

deliveriesSuite("postgres");
