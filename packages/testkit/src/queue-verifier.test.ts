import { spawn } from "node:child_process";
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { lacks } from "./tools.ts";

interface Question {
  headers: Record<string, string>;
  body: string;
  secret: string;
  nowMs: number;
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";
const t = 1_790_000_000_000;
const body = "caf\u00e9 \u{1F680}\n";
const prefix = "x-gigadrive-queue-";

/** The header that signs, with the parts that a test says otherwise. */
function headers(given: { t?: string; v1?: (v1: string) => string; signature?: (whole: string) => string; key?: string } = {}) {
  const at = given.t ?? String(t);
  const hash = createHash("sha256").update(body).digest("hex");
  const text = `${at}.emails.01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f.2.${hash}`;
  const v1 = createHmac("sha256", given.key ?? secret)
    .update(text)
    .digest("hex");
  const signature = `t=${at},v1=${given.v1?.(v1) ?? v1}`;
  return {
    [`${prefix}name`]: "emails",
    [`${prefix}message-id`]: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    [`${prefix}attempt`]: "2",
    [`${prefix}signature`]: given.signature?.(signature) ?? signature,
  };
}

async function ask(questions: readonly Question[]): Promise<boolean[]> {
  const program = fileURLToPath(new URL(join("..", "verifiers", "python", "check_queue.py"), import.meta.url));
  const child = spawn("python3", ["-B", program], { stdio: ["pipe", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  child.stdin.end(questions.map((each) => `${JSON.stringify({ ...each, body: Buffer.from(each.body).toString("base64") })}\n`).join(""));
  await once(child, "close");
  return output
    .trim()
    .split("\n")
    .map((line) => line === "true");
}

describe.skipIf(lacks("python3"))("the Python sample of a push consumer", () => {
  it("SIG-04: accepts what was signed up to 300 s either way, and nothing else, and never fails over a header", async () => {
    const cases: [string, boolean, Partial<Question>][] = [
      ["as signed", true, {}],
      ["300 s later", true, { nowMs: t + 300_000 }],
      ["300 s earlier", true, { nowMs: t - 300_000 }],
      ["301 s later", false, { nowMs: t + 301_000 }],
      ["301 s earlier", false, { nowMs: t - 301_000 }],
      ["another body", false, { body: "x" }],
      ["another attempt", false, { headers: { ...headers(), [`${prefix}attempt`]: "3" } }],
      ["another queue", false, { headers: { ...headers(), [`${prefix}name`]: "others" } }],
      ["a decoded key", false, { headers: headers({ key: secret.slice(6) }) }],
      ["seconds for milliseconds", false, { headers: headers({ t: String(t / 1000) }) }],
      ["upper case", false, { headers: headers({ v1: (v1) => v1.toUpperCase() }) }],
      ["t twice", false, { headers: headers({ signature: (whole) => `t=${t},${whole}` }) }],
      ["no t", false, { headers: headers({ signature: (whole) => whole.slice(whole.indexOf("v1")) }) }],
      ["100 signatures", false, { headers: headers({ signature: (whole) => `${whole},`.repeat(100) }) }],
      ["no signature", false, { headers: {} }],
      ["nonsense", false, { headers: headers({ signature: () => "\u0000=,=,v1" }) }],
      ["a secret without its prefix", false, { secret: secret.slice(6) }],
    ];
    const answers = await ask(cases.map(([, , given]) => ({ headers: headers(), body, secret, nowMs: t, ...given })));
    expect(cases.map(([name], i) => [name, answers[i]])).toEqual(cases.map(([name, accepted]) => [name, accepted]));
  });
});
