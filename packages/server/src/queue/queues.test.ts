import { queuesSuite } from "./queues.suite.ts";
import { engines } from "./world.suite.ts";

for (const engine of engines) queuesSuite(engine);
