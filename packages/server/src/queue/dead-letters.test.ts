import { deadLettersSuite } from "./dead-letters.suite.ts";
import { engines } from "./world.suite.ts";

for (const engine of engines) deadLettersSuite(engine);
