import { waitingSuite } from "./waiting.suite.ts";
import { engines } from "./world.suite.ts";

for (const engine of engines) waitingSuite(engine);
