import { resumeSuite } from "./resume.suite.ts";

resumeSuite("databases");
