// A push app behind plain node:http: Millrace calls it for each execution. Make the app with this server's address, then start it with
// the secret that making it printed:
//   npx millrace apps create shop --url https://shop.example.com/api/workflows
//   MILLRACE_WORKFLOWS_SIGNING_SECRET=whsec_… PORT=3000 npx tsx examples/workflows/server.ts
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { serve, toNodeHandler } from "@millrace/sdk/workflows";
import { workflows } from "./all.ts";

const handler = toNodeHandler(serve(workflows));

const server = createServer((request, response) => {
  if (request.url === "/api/workflows") void handler(request, response);
  else response.writeHead(404).end();
});
server.listen(Number(process.env.PORT ?? 3000), () => console.log(`listening on ${(server.address() as AddressInfo).port}`));
