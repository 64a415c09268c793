import { defineConfig } from "vitest/config";

// Tests run on the sources: the workspace packages resolve by their source condition, so nothing has to be built first.
export default defineConfig({
  ssr: { resolve: { conditions: ["@millrace/source"] } },
  resolve: { conditions: ["@millrace/source"] },
  test: {
    include: ["packages/**/*.test.ts", "bench/**/*.test.ts", "docs/**/*.test.ts"],
    globalSetup: ["packages/testkit/src/global-setup.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
