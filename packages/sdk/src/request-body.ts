/** Bodies of requests to handlers: whole, of bounded length, as the bytes that were signed; and refusals of requests. */
import { refusal, responseOf } from "./plain.ts";

/** Larger bodies are not read: no server sends a message of more than 1 MiB. */
export const maxBodyBytes = 2 * 1024 * 1024;

/** A refusal in one line of text. */
export const refuse = (status: number, why: string): Response => responseOf(refusal(status, why));

/** The whole body, or `undefined` when it is longer than `most` bytes or breaks off. */
export async function readBody(request: Request, most: number = maxBodyBytes): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > most) return undefined;
  try {
    if (request.body === null) return new Uint8Array(await request.arrayBuffer());
    const chunks: Uint8Array[] = [];
    let length = 0;
    const reader = request.body.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      length += next.value.length;
      if (length > most) {
        await reader.cancel();
        return undefined;
      }
      chunks.push(next.value);
    }
    const whole = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
      whole.set(chunk, at);
      at += chunk.length;
    }
    return whole;
  } catch {
    return undefined;
  }
}
