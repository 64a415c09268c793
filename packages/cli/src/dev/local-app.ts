/** `millrace dev --app URL`: the app on this machine becomes the deployment that push queues call (C7). */
import type { Client } from "../client.ts";

/** The one deployment of a developer's machine, and where its queues are. */
const deploymentId = "local";
const environment = "production";

/** Registers and promotes the app at `url`; answers the secret that its deliveries are signed with. Throws `ApiError` for a URL that may not be called. */
export async function deployLocalApp(client: Client, url: string): Promise<string> {
  await client.call("PutDeployment", { deploymentId, body: { url, environment } });
  await client.call("PromoteDeployment", { deploymentId, body: undefined });
  return (await client.call("GetSigningSecret", { environmentId: environment })).secret;
}

/** What the app needs in its environment, as one line for a shell. */
export function secretLine(secret: string): string {
  return `GIGADRIVE_QUEUE_SIGNING_SECRET=${secret}`;
}
