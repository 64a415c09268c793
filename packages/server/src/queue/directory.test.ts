import { directorySuite } from "./directory.suite.ts";
import { engines } from "./world.suite.ts";

for (const engine of engines) directorySuite(engine);
