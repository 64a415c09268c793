/**
 * Asking a push app what it has (W2): one signed request, whose answer becomes the app's workflows. Another build than the one known wakes
 * the runs that are blocked (W8). A sync that fails leaves what is known as it is and says why on the app.
 */
import { workflowProtocol } from "@millrace/contract";
import { type Announcement, buildWorkflowCall, cut, maxErrorLength, protocolVersion, speaks } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Clock } from "../clock.ts";
import { hmac } from "../delivery/hmac.ts";
import type { Attempt, DeliveryResult } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import type { Store } from "../store/store.ts";
import { firstIssue, httpError, objectOf } from "./push-answer.ts";
import { keysOf } from "./push-lane.ts";

/** How long an app may take to answer. */
const SYNC_MS = 10_000;

export interface SyncDeps {
  store: Store;
  clock: Clock;
  vault: Vault;
  attempt: Attempt;
  version: string;
}

/** What a sync came to. */
export type Synced = { ok: true; otherBuild: boolean } | { ok: false; error: string };

/** What an app's answer announces, or why it announces nothing. */
function read(result: DeliveryResult): Announcement | string {
  if (result.kind === "failure") return `${result.class}: ${result.message}`;
  if (result.status < 200 || result.status > 299) return httpError(result.status, result.body);
  const value = result.truncated ? null : objectOf(result.body);
  if (value === null) return "the answer is not a JSON object of at most 1 MiB";
  const { reason } = value as { reason?: { code?: unknown; message?: unknown } };
  if (value.status === "blocked") return `${String(reason?.code ?? "blocked")}: ${String(reason?.message ?? "")}`;
  const parsed = workflowProtocol.announcement.safeParse(value);
  if (!parsed.success) return `the answer is not an announcement: ${firstIssue(parsed.error)}`;
  if (!speaks(parsed.data.protocol)) return `protocol_unsupported: the app speaks ${parsed.data.protocol}, this server ${protocolVersion}`;
  return parsed.data;
}

/** What the store keeps of an announcement. */
export function announcementOf({ protocol, buildId, workflows }: Announcement, all: boolean) {
  const settings = workflows.map(({ name, timeoutMs, concurrency }) => ({
    name,
    timeoutMs: timeoutMs ?? null,
    concurrency: concurrency ?? null,
  }));
  return { protocol, buildId, workflows: settings, all };
}

/** Wakes every blocked run of an app. */
export async function wakeBlocked(store: Store, appNo: number): Promise<void> {
  while (await store.run("wakeBlocked", appNo));
}

/** Syncs a push app and wakes its blocked runs when `always`, or when its build is another one. `signal` cuts the request off. */
export async function syncApp(deps: SyncDeps, appNo: number, always: boolean, signal: AbortSignal): Promise<Synced> {
  const { store, clock, attempt, version } = deps;
  const row = await store.run("appLane", appNo);
  if (row === null || row.app.url === null) return { ok: false, error: "the app has no URL" };
  const id = uuidv7();
  const call = { type: "sync", protocol: protocolVersion, appId: row.app.id } as const;
  const request = buildWorkflowCall(call, id, { hmac, keys: keysOf(deps, row)(), wallMs: clock.wall(), version });
  const announced = read(await attempt({ url: row.app.url, method: "POST", timeoutMs: SYNC_MS, ...request }, signal));
  if (typeof announced === "string") {
    const error = cut(announced, maxErrorLength);
    await store.run("saveSyncError", appNo, error);
    return { ok: false, error };
  }
  const stored = await store.run("announce", appNo, announcementOf(announced, true));
  if (always || stored?.otherBuild === true) await wakeBlocked(store, appNo);
  return { ok: true, otherBuild: stored?.otherBuild === true };
}
