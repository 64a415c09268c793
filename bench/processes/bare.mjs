/** The limit of any HTTP server here: node:http that reads a body and answers what a send of one message answers, and nothing else. */
import { createServer } from "node:http";
import { serveJobs } from "../parts/child.mjs";

const answer = Buffer.from('{"messages":[{"messageId":"01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f"}]}');

serveJobs({
  listen() {
    const server = createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => {
        response.writeHead(200, { "content-type": "application/json", "content-length": answer.length });
        response.end(answer);
      });
    });
    server.keepAliveTimeout = 120_000;
    return new Promise((resolve) => server.listen(0, "127.0.0.1", 1024, () => resolve({ port: server.address().port })));
  },
});
