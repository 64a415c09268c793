import { messagesSuite } from "./messages.suite.ts";
import { engines } from "./world.suite.ts";

for (const engine of engines) messagesSuite(engine);
