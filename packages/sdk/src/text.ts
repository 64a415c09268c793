/** Texts out of anything that was thrown, fit for one line of a log, an answer or a header. Nothing here throws, whatever it is given. */

/** One line, without control characters, at most `max` characters and never half a one. */
export function oneLine(text: string, max: number): string {
  const line = text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .replace(/\p{Cs}/gu, "\ufffd")
    .trim();
  if (line.length <= max) return line;
  const last = line.charCodeAt(max - 1);
  return line.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

/** A header value: printable ASCII, at most 500 characters; what is neither becomes `?`. */
export const headerText = (text: string): string =>
  oneLine(text, 4000)
    .replace(/[^\x20-\x7e]/gu, "?")
    .slice(0, 500);

interface Issue {
  message?: unknown;
  path?: unknown;
}

/** `to: Invalid email; template: Required`, from the issues of a validation library. */
function issuesText(issues: readonly unknown[]): string {
  return issues
    .slice(0, 5)
    .map((each) => {
      const { message, path } = (each ?? {}) as Issue;
      const keys = Array.isArray(path) ? path.map((key: unknown) => String((key as { key?: unknown } | null)?.key ?? key)) : [];
      return `${keys.length === 0 ? "" : `${keys.join(".")}: `}${String(message)}`;
    })
    .join("; ");
}

/** What something thrown says for itself, in one line of at most `max` characters. */
export function messageOf(thrown: unknown, max = 500): string {
  try {
    if (typeof thrown === "object" && thrown !== null) {
      const { issues, message } = thrown as { issues?: unknown; message?: unknown };
      if (Array.isArray(issues) && issues.length > 0) return oneLine(issuesText(issues), max);
      if (typeof message === "string") return oneLine(message, max);
      return "an object was thrown";
    }
    return oneLine(typeof thrown === "string" ? thrown : `${String(thrown)} was thrown`, max);
  } catch {
    return "something was thrown that cannot be read";
  }
}
