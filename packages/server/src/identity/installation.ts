/**
 * Makes sure that there is something to work with at a first start: an organization, a project and a key with all rights in it.
 * Invariant: doing it again changes nothing, and several nodes may do it at once.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Store } from "../store/store.ts";
import type { OrganizationRow, ProjectRow, Statement } from "./caller.ts";
import { formatKey, hashKey } from "./key-text.ts";

/** All rights, everywhere the key reaches. */
const allRights: readonly Statement[] = [{ allow: ["*"], on: ["*"] }];

/** A key that an operator chose instead of having one made. */
const GIVEN = /^[\x21-\x7e]{8,200}$/;

/** Repeats what lost a race for a name: the winner made what was wanted. */
async function found<Row>(find: () => Promise<Row | null>, make: () => Promise<unknown>): Promise<Row> {
  const before = await find();
  if (before !== null) return before;
  try {
    await make();
  } catch (error) {
    if (!(error instanceof Fault && error.code === "name_taken")) throw error;
  }
  const after = await find();
  if (after === null) throw new Error("what was just made is gone");
  return after;
}

/**
 * Creates organization, project and environment when missing, and a key of the whole installation: the one given (`key.text`, which
 * need not be of our form), or a new one when the installation has no key yet. `apiKey` is the new key's text, this once, else `null`.
 */
export async function ensureInstallation(
  store: Pick<Store, "run">,
  given: {
    organization: string;
    project: string;
    key: { name: string; text?: string };
    newId: () => string;
    random: (bytes: number) => Uint8Array;
  },
): Promise<{ organization: OrganizationRow; project: ProjectRow; apiKey: string | null }> {
  const { newId, random, key } = given;
  if (key.text !== undefined && !GIVEN.test(key.text)) throw invalid("the API key given", "must be 8 to 200 visible ASCII characters");
  const organization = await found(
    () => store.run("findOrganization", given.organization),
    () => store.run("createOrganization", { id: newId(), name: given.organization }),
  );
  const project = await found(
    async () => (await store.run("findProject", organization.id, given.project)).project,
    () => store.run("createProject", { id: newId(), environmentId: newId(), name: given.project, organizationNo: organization.no }),
  );
  const text = key.text ?? formatKey(random(32));
  const made = await store.run("ensureKey", {
    id: newId(),
    name: key.name,
    hash: hashKey(text),
    statements: allRights,
    onlyFirst: key.text === undefined,
  });
  return { organization, project, apiKey: made ? text : null };
}
