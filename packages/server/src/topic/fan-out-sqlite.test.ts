import { fanOutSuite } from "./fan-out.suite.ts";

fanOutSuite("sqlite");
