// A whole endpoint for a push subscription. Start it with the secret that creating the subscription answered:
//   MILLRACE_SIGNING_SECRETS=whsec_… PORT=8080 node receiver.mjs
// During a rotation give both secrets, separated by a comma.
import { createServer } from "node:http";
import { verify } from "./verify.mjs";

const secrets = (process.env.MILLRACE_SIGNING_SECRETS ?? "").split(",");
const mostBytes = 16 * 1024 * 1024;

// Your work goes here. Throw, and the message is delivered again; use messageId to recognize what you have done already.
async function handle(message) {
  if (message.body === "fail") throw new Error("told to fail");
  console.log(`handled ${message.messageId}`);
}

async function readAll(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > mostBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const server = createServer(async (request, response) => {
  const body = await readAll(request).catch(() => undefined);
  if (body === undefined) return response.writeHead(413, { Connection: "close" }).end();
  if (!verify(request.headers["ezgh-signature"], body, secrets)) return response.writeHead(401).end();
  const failed = [];
  for (const message of JSON.parse(body.toString("utf8")).messages) {
    try {
      await handle(message);
    } catch {
      failed.push(message.messageId);
    }
  }
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ failed }));
});
server.listen(Number(process.env.PORT ?? 8080), () => console.log(`listening on ${server.address().port}`));
