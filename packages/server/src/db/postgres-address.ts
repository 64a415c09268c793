/**
 * The address of a PostgreSQL database, taken apart: what it says in `options` (`-c search_path=…`) would stand in place of the options that
 * nodes need, for the driver holds an address to be all there is.
 */

/** The address without its `options`, and these as text; empty when there are none. */
export function addressOf(url: string): { connectionString: string; given: string } {
  const found = /([?&])options=([^&#]*)&?/.exec(url);
  if (found === null) return { connectionString: url, given: "" };
  const [all, mark, text = ""] = found;
  return { connectionString: url.replace(all, mark as string), given: decodeURIComponent(text.replaceAll("+", " ")) };
}
