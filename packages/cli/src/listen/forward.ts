/**
 * One message on its way to a local port and back: built and signed as a push consumer's request (C2), its answer read as one (C3). It
 * reads no queue and settles nothing. A port that nobody listens on is not an answer: the message was not tried.
 */
import { createHash } from "node:crypto";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { Answer as Answered, Operations } from "@millrace/contract";
import { gigadriveMessage, type Outcome, type SigningKey } from "@millrace/contract/wire";
import { hmac } from "../hmac.ts";
import { version } from "../version.ts";

export type Leased = Answered<Operations["GigadriveReceive"]>["messages"][number];

/** What became of a forwarded message. `refused`: the port was closed, nothing was sent. */
export type Forwarded =
  | { kind: "refused" }
  | { kind: "answered"; status: number | null; durationMs: number; outcome: Outcome; error: string | null };

/** What is read of an answer's body, in bytes: more than is kept of it. */
const BODY_BYTES = 4_096;
/** No retention is longer than this. */
const YEAR_MS = 31_536_000_000;
/** The one deployment that a forwarded message names. */
const DEPLOYMENT = "listen";

const portOf = (url: URL): number => Number(url.port) || (url.protocol === "https:" ? 443 : 80);
const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "");

/** Whether something listens where `url` points. */
export function isOpen(url: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostOf(url), port: portOf(url) });
    const end = (open: boolean) => {
      socket.destroy();
      resolve(open);
    };
    socket.setTimeout(2_000, () => end(false));
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
  });
}

type Exchange = { status: number; headers: IncomingHttpHeaders; body: Uint8Array; truncated: boolean } | { failure: string };

function exchange(url: URL, headers: Record<string, string>, body: Uint8Array, timeoutMs: number): Promise<Exchange> {
  return new Promise((resolve) => {
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const signal = AbortSignal.timeout(timeoutMs);
    const failed = (error: Error & { code?: string }) => resolve({ failure: signal.aborted ? "timeout" : (error.code ?? error.message) });
    const sent = send(url, { method: "POST", headers: { ...headers, "content-length": String(body.length) }, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        if (bytes < BODY_BYTES) chunks.push(chunk.subarray(0, BODY_BYTES - bytes));
        bytes += chunk.length;
      });
      response.on("error", failed);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: new Uint8Array(Buffer.concat(chunks)),
          truncated: bytes > BODY_BYTES,
        }),
      );
    });
    sent.on("error", failed);
    sent.end(body);
  });
}

/** Forwards one leased message. `timeoutMs` is what the answer may take. */
export async function forward(message: Leased, to: { queue: string; url: URL; key: SigningKey; timeoutMs: number }): Promise<Forwarded> {
  const body = new Uint8Array(Buffer.from(message.body, message.encoding === "base64" ? "base64" : "utf8"));
  const startedAt = Date.now();
  const expiresAt = message.expiresAt === null ? startedAt + YEAR_MS : Date.parse(message.expiresAt);
  const request = gigadriveMessage.build(
    {
      queue: to.queue,
      messageId: message.id,
      attempt: message.attempts,
      body,
      bodyHash: createHash("sha256").update(body).digest("hex"),
      contentType: message.contentType,
      attributes: message.headers,
      createdAt: Date.parse(message.createdAt),
      expiresAt,
      deadline: startedAt + to.timeoutMs,
      groupKey: message.groupKey,
      deduplicationKey: message.deduplicationKey,
      deploymentId: DEPLOYMENT,
      fallbackFrom: message.deploymentId,
      traceparent: null,
    },
    { hmac, keys: [to.key], wallMs: startedAt, version },
  );
  const answer = await exchange(to.url, request.headers, request.body, to.timeoutMs);
  const durationMs = Date.now() - startedAt;
  if ("failure" in answer) {
    if (answer.failure === "ECONNREFUSED") return { kind: "refused" };
    const error = answer.failure === "timeout" ? "timeout" : `connection: ${answer.failure}`;
    return { kind: "answered", status: null, durationMs, outcome: { kind: "retry", delayMs: null }, error };
  }
  const limits = { nowMs: Date.now(), maxDelayMs: Math.max(0, expiresAt - Date.now()) };
  const { outcomes, error } = gigadriveMessage.read(answer, [message.id], limits);
  return { kind: "answered", status: answer.status, durationMs, outcome: outcomes[0] ?? { kind: "ack" }, error };
}
