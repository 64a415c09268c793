import { scheduleSuite } from "./schedule.suite.ts";

scheduleSuite("sqlite");
