/** The messages of the bench: one body of 1,024 bytes that looks like what people queue, a JSON document. */

export const BODY_BYTES = 1024;

const start = '{"orderId":"o-12345678","customer":{"id":"c-987654","country":"DE"},"total":129.95,"note":"';
export const body = `${start}${"millrace ".repeat(200)}`.slice(0, BODY_BYTES - 2).concat('"}');

/** The text of a SendMessages request with so many of them. */
export function sendText(count, extra = {}) {
  return JSON.stringify({ messages: Array.from({ length: count }, () => ({ body, ...extra })) });
}
