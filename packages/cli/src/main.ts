#!/usr/bin/env node
/** The process: runs the command line and ends with its exit code. */
import { exitCode } from "./exit.ts";
import { run } from "./program.ts";

// `millrace queues list | head` closes the pipe early: that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(exitCode.ok);
});

process.exitCode = await run(process.argv.slice(2));
