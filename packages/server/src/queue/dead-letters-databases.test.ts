import { deadLettersSuite } from "./dead-letters.suite.ts";

deadLettersSuite("databases");
