import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildNotification, parseSecret, type SigningKey } from "@millrace/contract/wire";
import { describe, expect, it } from "vitest";
import { hmac } from "./hmac.ts";
import { lacks } from "./tools.ts";

interface Question {
  headers: Record<string, string>;
  body: Uint8Array;
  secret: string;
  now: number;
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";
const now = 1_790_000_000;
const making = { hmac, keys: [parseSecret(secret) as SigningKey], wallMs: now * 1000 + 700, version: "0.0.0" };
const named = {
  messageId: "01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a",
  topicCrn: "crn:millrace:notifications:local:shop:topic/orders",
  topicName: "orders",
  subscriptionId: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10",
};
const notification = (message: string, raw: boolean) =>
  buildNotification(
    {
      ...{ deliveryId: "d", attempt: 1, kind: "notification", raw },
      parts: { ...named, message, subject: null, attributes: null, acceptedAt: now * 1000, unsubscribeUrl: "https://example.com/u" },
    },
    making,
  );
const handshake = buildNotification(
  {
    ...{ deliveryId: "d", attempt: 1, kind: "confirmation" },
    parts: { ...named, confirmUrl: "https://example.com/c", token: "t", askedAt: now * 1000 },
  },
  making,
);

async function ask(questions: readonly Question[]): Promise<boolean[]> {
  const program = fileURLToPath(new URL(join("..", "verifiers", "python", "check_notification.py"), import.meta.url));
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

describe.skipIf(lacks("python3"))("the Python sample of a topic's webhook", () => {
  it("T8, T6: accepts envelopes, raw messages and handshakes up to 300 s either way, and nothing else, and never fails over a header", async () => {
    const { headers, body } = notification("caf\u00e9 \u{1F680}\n", true);
    const signature = headers["x-basaltic-signature"] as string;
    const without = (name: string) => Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));
    const signed = (value: string) => ({ headers: { ...headers, "x-basaltic-signature": value } });
    const at = (value: string) => ({ headers: { ...headers, "x-basaltic-timestamp": value } });
    const decoded = createHmac("sha256", Buffer.from(secret.slice(6), "base64url"))
      .update(`${now}.`)
      .update(body)
      .digest("hex");
    const cases: [string, boolean, Partial<Question>][] = [
      ["a raw message", true, {}],
      ["an empty one", true, notification("", true)],
      ["an envelope", true, notification('{"a":1}', false)],
      ["a handshake", true, handshake],
      ["300 s later", true, { now: now + 300 }],
      ["300 s earlier", true, { now: now - 300 }],
      ["301 s later", false, { now: now + 301 }],
      ["301 s earlier", false, { now: now - 301 }],
      ["another body", false, { body: new Uint8Array([120]) }],
      ["the time of another", false, at(String(now + 1))],
      ["milliseconds for seconds", false, at(String(now * 1000))],
      ["no time", false, { headers: without("x-basaltic-timestamp") }],
      ["digits of another script", false, at("\u0661".repeat(10))],
      ["a decoded key", false, signed(`v1=${decoded}`)],
      ["upper case", false, signed(signature.toUpperCase())],
      ["two signatures", false, signed(`${signature},${signature}`)],
      ["no version", false, signed(signature.slice(3))],
      ["no signature", false, { headers: without("x-basaltic-signature") }],
      ["another secret", false, { secret: secret.replace("MfKQ", "MfKR") }],
    ];
    const answers = await ask(cases.map(([, , given]) => ({ headers, body, secret, now, ...given })));
    expect(cases.map(([name], i) => [name, answers[i]])).toEqual(cases.map(([name, accepted]) => [name, accepted]));
  });
});
