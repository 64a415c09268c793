// Starts worker.ts from the sources (tests): a thread does not inherit the TypeScript loader of the main thread.
import { register } from "tsx/esm/api";

register();
await import("./worker.ts");
