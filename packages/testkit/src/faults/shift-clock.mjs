// Loaded into one node by a test: its machine's clock is wrong by MILLRACE_TEST_SHIFT_MS milliseconds.
const shift = Number(process.env.MILLRACE_TEST_SHIFT_MS);
const { now } = Date;
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(now() + shift);
    else super(...args);
  }
  static now() {
    return now() + shift;
  }
};
