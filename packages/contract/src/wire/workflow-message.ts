/** A queue's message as workflows get it (W12, W14): the input of a run that it starts, the result of a wait that it ends. A JSON text. */
import { base64 } from "./signing.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** What is read of a message; `sentAt` in milliseconds since 1970. */
export interface QueuedMessage {
  messageId: string;
  body: Uint8Array;
  attributes: Record<string, string> | null;
  sentAt: number;
  groupKey: string | null;
  seq: number;
}

function textOf(body: Uint8Array): string | null {
  try {
    return utf8.decode(body);
  } catch {
    return null;
  }
}

/** The JSON text. `groupId` and `seq` are there on FIFO queues only; a body that is no UTF-8 text is `bodyBase64` instead of `body`. */
export function workflowMessage(message: QueuedMessage, queue: { id: string; fifo: boolean }): string {
  const text = textOf(message.body);
  return JSON.stringify({
    messageId: message.messageId,
    ...(text === null ? { bodyBase64: base64(message.body) } : { body: text }),
    attributes: message.attributes ?? {},
    sentAt: new Date(message.sentAt).toISOString(),
    queueId: queue.id,
    ...(queue.fifo ? { groupId: message.groupKey, seq: String(message.seq) } : {}),
  });
}
