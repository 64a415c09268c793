/**
 * The limit of latency: what a durable relay cannot do without. node:http reads a message, appends it to a file, flushes the file to
 * the disk, answers, and hands the message to undici. It has no queue, no signatures and no acknowledgements.
 */
import { fdatasync, openSync, write } from "node:fs";
import { createServer } from "node:http";
import { Pool } from "undici";
import { serveJobs } from "../parts/child.mjs";

serveJobs({
  listen({ file, sinkPort }) {
    const log = openSync(file, "a");
    const pool = new Pool(`http://127.0.0.1:${sinkPort}`, { connections: 10, pipelining: 1 });
    const server = createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => {
        const body = Buffer.concat(chunks);
        write(log, body, () =>
          fdatasync(log, async () => {
            response.writeHead(200, { "content-length": 2 });
            response.end("{}");
            const answer = await pool.request({ path: "/", method: "POST", headers: { "content-type": "application/json" }, body });
            await answer.body.dump();
          }),
        );
      });
    });
    server.keepAliveTimeout = 120_000;
    return new Promise((resolve) => server.listen(0, "127.0.0.1", 1024, () => resolve({ port: server.address().port })));
  },
});
