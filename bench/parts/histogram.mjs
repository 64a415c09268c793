/** Latencies in buckets that grow by 2 %: bounded memory whatever the rate, quantiles exact to 2 %. */

const GROWTH = Math.log(1.02);
const SMALLEST_MS = 0.001;

export function createHistogram() {
  const buckets = new Uint32Array(1200);
  let count = 0;
  return {
    add(ms) {
      count += 1;
      const at = ms <= SMALLEST_MS ? 0 : Math.min(1199, Math.ceil(Math.log(ms / SMALLEST_MS) / GROWTH));
      buckets[at] += 1;
    },
    /** The upper edge of the bucket that holds the quantile, in milliseconds; `null` when empty. */
    quantile(q) {
      if (count === 0) return null;
      let left = Math.max(1, Math.ceil(q * count));
      for (let at = 0; at < buckets.length; at += 1) {
        left -= buckets[at];
        if (left <= 0) return SMALLEST_MS * Math.exp(at * GROWTH);
      }
      return Number.POSITIVE_INFINITY;
    },
    get count() {
      return count;
    },
  };
}
