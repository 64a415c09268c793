/** Programs that some tests need and a machine may lack. Without one its tests are visibly skipped, except on CI, where they fail. */
import { spawnSync } from "node:child_process";

const onCi = (value: string | undefined): boolean => value !== undefined && value !== "" && value !== "false" && value !== "0";

/** Whether tests that need `program` are to be skipped. It counts as present when it runs with `argument`. */
export function lacks(program: string, argument = "--version"): boolean {
  if (onCi(process.env.CI)) return false;
  const { error, status } = spawnSync(program, [argument], { stdio: "ignore" });
  return error !== undefined || status !== 0;
}
