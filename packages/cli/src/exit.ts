/** What the process answers its caller with: one number for one kind of end. `CliError` is the only error that is shown without its origin. */

export const exitCode = {
  ok: 0,
  failed: 1,
  usage: 2,
  noPermission: 3,
  notFound: 4,
  conflict: 5,
  unreachable: 6,
  partlyFailed: 7,
  changes: 8,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Ends the command with a sentence on standard error, and with a second one (`hint`) that says what to do about it. */
export class CliError extends Error {
  readonly exitCode: ExitCode;
  readonly hint: string | undefined;
  constructor(code: ExitCode, message: string, hint?: string) {
    super(message);
    this.name = "CliError";
    this.exitCode = code;
    this.hint = hint;
  }
}

/** The exit code of a refused request, by its HTTP status. */
export function exitCodeOfStatus(status: number): ExitCode {
  if (status === 400 || status === 413 || status === 415) return exitCode.usage;
  if (status === 401 || status === 403) return exitCode.noPermission;
  if (status === 404) return exitCode.notFound;
  if (status === 409) return exitCode.conflict;
  return exitCode.failed;
}
