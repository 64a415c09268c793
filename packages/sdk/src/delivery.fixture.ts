/** Push deliveries as the server's own format builds them, and answers as it reads them: what a handler says is judged by the wire. */
import { createHash, createHmac } from "node:crypto";
import { buildMessage, type MessageDelivery, type Outcome, parseSecret, readMessageAnswer, type SigningKey } from "@millrace/contract/wire";

export const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYA";

export interface Shape extends Partial<Omit<MessageDelivery, "body">> {
  body?: string | Uint8Array;
  secret?: string;
  /** When it is signed. */
  at?: number;
}

/** Headers and body of one delivery, signed now. */
export function delivered(shape: Shape = {}): { headers: Record<string, string>; body: Uint8Array } {
  const { body = "{}", secret: key = secret, at = Date.now(), ...rest } = shape;
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return buildMessage(
    {
      queue: "emails",
      messageId: "0198f2a0-0000-7000-8000-000000000001",
      attempt: 1,
      body: bytes,
      bodyHash: createHash("sha256").update(bytes).digest("hex"),
      contentType: "application/json",
      attributes: null,
      createdAt: at - 1000,
      expiresAt: at + 86_400_000,
      deadline: at + 59_000,
      groupKey: null,
      deduplicationKey: null,
      deploymentId: "d1",
      fallbackFrom: null,
      traceparent: null,
      ...rest,
    },
    {
      hmac: (form, secretKey, ...parts) => {
        const state = createHmac("sha256", secretKey);
        for (const part of parts) state.update(part);
        return state.digest(form);
      },
      keys: [parseSecret(key) as SigningKey],
      wallMs: at,
      version: "0",
    },
  );
}

/** One delivery as a `Request`; `change` may spoil its headers. */
export function requestOf(shape: Shape = {}, change: (headers: Headers) => void = () => {}): Request {
  const { headers, body } = delivered(shape);
  const all = new Headers(headers);
  change(all);
  return new Request("http://localhost/api/queues/emails", { method: "POST", headers: all, body: Uint8Array.from(body) });
}

/** What the server makes of an answer, with the error that it would keep. */
export async function readingOf(response: Response, maxDelayMs = 345_600_000): Promise<{ outcome: Outcome; error: string | null }> {
  const body = new Uint8Array(await response.arrayBuffer());
  const answer = { status: response.status, headers: Object.fromEntries(response.headers), body, truncated: false };
  const { outcomes, error } = readMessageAnswer(answer, ["m"], { nowMs: Date.now(), maxDelayMs });
  return { outcome: outcomes[0] as Outcome, error };
}
