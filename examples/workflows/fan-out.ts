// Work on many parts at once and put the results together. Each part is a step of its own: one that fails is tried again alone, and
// after a crash only those are done that were not.
import { workflow } from "@millrace/sdk/workflows";

export const thumbnails = workflow<{ images: string[] }, { made: number; bytes: number }>(
  "thumbnails",
  async ({ input, step }) => {
    const sizes = await Promise.all(
      input.images.map((image) =>
        step.run(
          `shrink ${image}`,
          async ({ attempt, signal }) => {
            // Your work goes here; `signal` is aborted when it takes longer than its timeout.
            if (image.startsWith("slow") && attempt === 1) throw new Error("the store is busy");
            signal.throwIfAborted();
            return image.length * 100;
          },
          { timeout: "1m" },
        ),
      ),
    );
    return { made: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
  },
  { retry: { retries: 5, delay: "2s", maxDelay: "1m" }, concurrency: 20 },
);
