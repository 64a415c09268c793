// For the tests: one question per line, {"header", "body" (base64), "secrets", "nowMs"}; answers true or false per line.
import { createInterface } from "node:readline";
import { verify } from "./verify.mjs";

for await (const line of createInterface({ input: process.stdin })) {
  const { header, body, secrets, nowMs } = JSON.parse(line);
  console.log(verify(header, Buffer.from(body, "base64"), secrets, nowMs));
}
