/**
 * CRNs (T1): `crn:millrace:<service>:<region>:<account>:<kind>/<name>`. The account is the project's id when one is written; its name is
 * taken too. Pure.
 */

/** What a CRN is relative to: the installation's region and the caller's project. */
export interface CrnPlace {
  region: string;
  account: { id: string; name: string };
}

const crn = (service: string, { region, account }: CrnPlace, resource: string): string =>
  `crn:millrace:${service}:${region}:${account.id}:${resource}`;

/** The CRN of a topic. */
export const topicCrn = (place: CrnPlace, name: string): string => crn("notifications", place, `topic/${name}`);

/** The CRN of a topic's subscription. */
export const subscriptionCrn = (place: CrnPlace, topicName: string, id: string): string =>
  `${topicCrn(place, topicName)}/subscription/${id}`;

/** The CRN of a queue. */
export const queueCrn = (place: CrnPlace, name: string): string => crn("queues", place, `queue/${name}`);

/** What stands behind the account in a CRN of `service` in this place; `null` when it is of another service, region or account. */
function resourceOf(text: string, service: string, { region, account }: CrnPlace): string | null {
  const [scheme, partition, at, where, owner, ...rest] = text.split(":");
  const ours = scheme === "crn" && partition === "millrace" && at === service && where === region;
  return ours && (owner === account.id || owner === account.name) ? rest.join(":") : null;
}

/** What a reference to a topic means in this place: an id or a name; `null` for a CRN that leads elsewhere. */
export function topicReference(text: string, place: CrnPlace): string | null {
  if (!text.startsWith("crn:")) return text;
  return /^topic\/([^/]+)$/.exec(resourceOf(text, "notifications", place) ?? "")?.[1] ?? null;
}

/** What a reference to a topic subscription means in this place: its id; `null` for a CRN that leads elsewhere. */
export function subscriptionReference(text: string, place: CrnPlace): string | null {
  if (!text.startsWith("crn:")) return text;
  return /^topic\/[^/]+\/subscription\/([^/]+)$/.exec(resourceOf(text, "notifications", place) ?? "")?.[1] ?? null;
}

/** What a reference to a queue means in this place: an id, a resource name or a name; `null` for a CRN that leads elsewhere. */
export function queueReference(text: string, place: CrnPlace): string | null {
  if (!text.startsWith("crn:")) return text;
  return /^queue\/([^/]+)$/.exec(resourceOf(text, "queues", place) ?? "")?.[1] ?? null;
}
