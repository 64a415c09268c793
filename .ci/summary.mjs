// Adds the tests and the gates up. A skipped test counts as failed: on CI everything runs. A run that left no report is one failure.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [folder] = process.argv.slice(2);
let passed = 0;
let failed = 0;
const fail = (count, what) => {
  failed += count;
  console.log(`FAILED ${what}`);
};

const report = join(folder, "tests.json");
if (existsSync(report)) {
  const tests = JSON.parse(readFileSync(report, "utf8"));
  passed += tests.numPassedTests;
  if (tests.numFailedTests > 0) fail(tests.numFailedTests, `${tests.numFailedTests} tests`);
  for (const file of tests.testResults) {
    // A file that broke before its first test has no failed test to count.
    if (file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed")) fail(1, file.name);
    for (const { status, fullName } of file.assertionResults) {
      if (status !== "passed" && status !== "failed") fail(1, `${fullName}: ${status}, and nothing may be skipped here`);
    }
  }
}
const code = readFileSync(join(folder, "tests.code"), "utf8").trim();
if (code !== "0" && failed === 0) fail(1, `the test run ended with ${code}`);
if (passed === 0 && failed === 0) fail(1, "no test ran");

for (const line of readFileSync(join(folder, "gates"), "utf8").trim().split("\n")) {
  const [status, name] = line.split(" ");
  if (status === "0") passed += 1;
  else fail(1, name);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
