/**
 * Tokens of executions (W6): they prove, without a look at the store, that this server handed a run out, and by which hand-out of which
 * wake-up. They need no date: once the wake-up is handed out again or acknowledged, the store refuses what they name.
 */
import type { Vault } from "../identity/vault.ts";
import type { Handout } from "../store/report.ts";

/** What a token says. `told`: the task said that the run is cancelled; `pull`: its lease grows with heartbeats. */
export interface ExecutionToken {
  handout: Handout;
  told: boolean;
  pull: boolean;
}

const PURPOSE = "execution";

/** Writes a token. */
export function writeToken(vault: Pick<Vault, "sign">, { handout, told, pull }: ExecutionToken): string {
  const { runNo, queueNo, seq, receipt } = handout;
  const text = [runNo, queueNo, seq, receipt, Number(told), Number(pull)].map((n) => n.toString(36)).join("-");
  return `${text}.${vault.sign(PURPOSE, text)}`;
}

/** Reads a token; `null` when it is not one of this server's. */
export function readToken(vault: Pick<Vault, "verify">, token: string): ExecutionToken | null {
  const [text, signature] = token.split(".", 2);
  if (text === undefined || signature === undefined || !vault.verify(PURPOSE, text, signature)) return null;
  const [runNo = 0, queueNo = 0, seq = 0, receipt = 0, told = 0, pull = 0] = text.split("-").map((part) => Number.parseInt(part, 36));
  return { handout: { runNo, queueNo, seq, receipt }, told: told === 1, pull: pull === 1 };
}

/** Tokens that are written and read at each end of every step. */
export interface Tokens {
  write(token: ExecutionToken): string;
  /** `null` when it is not one of this server's. */
  read(text: string): ExecutionToken | null;
}

/** So many tokens are known without a look at their signature: those of the executions under way, as a rule. */
const KNOWN_TOKENS = 10_000;

/** Tokens of a server, the latest of which it remembers. */
export function createTokens(vault: Pick<Vault, "sign" | "verify">): Tokens {
  const known = new Map<string, ExecutionToken>();
  const keep = (text: string, token: ExecutionToken): void => {
    const oldest = known.size < KNOWN_TOKENS ? undefined : known.keys().next().value;
    if (oldest !== undefined) known.delete(oldest);
    known.set(text, token);
  };
  return {
    write(token) {
      const text = writeToken(vault, token);
      keep(text, token);
      return text;
    },
    read(text) {
      const remembered = known.get(text);
      if (remembered !== undefined) return remembered;
      const token = readToken(vault, text);
      if (token !== null) keep(text, token);
      return token;
    },
  };
}
