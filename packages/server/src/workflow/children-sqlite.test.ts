import { childrenSuite } from "./children.suite.ts";

childrenSuite("sqlite");
