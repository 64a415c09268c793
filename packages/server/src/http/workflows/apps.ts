/** Handlers of apps and their workflows: look up and authorize, then the verb. */
import { Fault } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { Caller } from "../../identity/caller.ts";
import type { Apps, GivenNotifications } from "../../workflow/app.ts";
import { wireApp, wireWorkflow } from "../../workflow/wire.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import type { Handlers } from "../handler.ts";
import { type AppReach, appResource } from "./reach.ts";

type Names = "CreateApp" | "ListApps" | "GetApp" | "UpdateApp" | "DeleteApp" | "SyncApp" | "RotateAppSecret" | "ListWorkflows";

/** How many entries a list shows unless asked (A3). */
export const PAGE = 50;
/** How many apps one page of a list reads at once, and how often, to find those in the key's reach. */
const STRIDE = 200;
const STRIDES = 10;

type Given = Omit<GivenNotifications, "queue"> & { queueId: string };

/** The handlers of apps. */
export function appHandlers(deps: { access: Access; apps: Apps; reach: AppReach }): Pick<Handlers, Names> {
  const { access, apps, reach } = deps;

  /** Where results go is a send in the caller's name: the caller must be allowed to (W17). */
  const notificationsOf = async (
    caller: Caller,
    params: { organizationId: string; projectId: string },
    given: Given | null,
  ): Promise<GivenNotifications | null> => {
    if (given === null) return null;
    const path = "notifications.queueId";
    try {
      const { queue } = await access.queue(caller, { ...params, queueId: given.queueId }, "queues.messages.send");
      return { ...given, queue };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      throw new Fault(error.code, `${path}: ${error.message}`, { ...error.details, path });
    }
  };

  return {
    async CreateApp({ caller, idempotency }, { params, body }) {
      const project = await access.project(caller, params, null);
      const permission = "workflows.apps.create";
      if (!access.allows(caller, permission, appResource(project, body.name)))
        throw new Fault("permission_denied", `the key lacks the permission ${permission} on an app of this name`, { permission });
      const notifications = await notificationsOf(caller, params, body.notifications ?? null);
      return apps.create(project.no, { ...body, notifications }, idempotency);
    },
    async ListApps({ caller }, { params, query }) {
      const project = await access.project(caller, params, null);
      const list = `apps of ${project.no}`;
      const limit = query.limit ?? PAGE;
      const shown = [];
      let after = (decodeCursor(list, query.cursor)?.[0] as string | undefined) ?? null;
      for (let stride = 0; stride < STRIDES && shown.length < limit; stride++) {
        const page = await apps.list(project.no, after, STRIDE);
        for (const app of page) {
          if (shown.length === limit) break;
          after = app.name;
          if (access.allows(caller, "workflows.apps.list", appResource(project, app.name))) shown.push(wireApp(app, null));
        }
        const last = page.at(-1)?.name ?? after;
        if (page.length < STRIDE && after === last) return { apps: shown, nextCursor: null };
      }
      return { apps: shown, nextCursor: encodeCursor(list, [after as string]) };
    },
    async GetApp({ caller }, { params }) {
      const { app } = await reach.app(caller, params, "workflows.apps.get");
      return wireApp(app, null);
    },
    async UpdateApp({ caller }, { params, body }) {
      const { app } = await reach.app(caller, params, "workflows.apps.update");
      const { notifications, ...rest } = body;
      if (notifications === undefined) return apps.update(app, rest);
      return apps.update(app, { ...rest, notifications: await notificationsOf(caller, params, notifications) });
    },
    async DeleteApp({ caller }, { params }) {
      const { app } = await reach.app(caller, params, "workflows.apps.delete");
      await apps.delete(app);
    },
    async SyncApp({ caller }, { params }) {
      const { app } = await reach.app(caller, params, "workflows.apps.sync");
      return apps.sync(app);
    },
    async RotateAppSecret({ caller, idempotency }, { params }) {
      const { app } = await reach.app(caller, params, "workflows.apps.update");
      return apps.rotate(app, idempotency);
    },
    async ListWorkflows({ caller }, { params, query }) {
      const { app } = await reach.app(caller, params, "workflows.apps.get");
      const list = `workflows of ${app.no}`;
      const limit = query.limit ?? PAGE;
      const place = decodeCursor(list, query.cursor);
      const found = await apps.workflows(app, place === null ? null : String(place[0]), limit + 1);
      const page = found.slice(0, limit);
      const last = found.length > limit ? page.at(-1) : undefined;
      return { workflows: page.map(wireWorkflow), nextCursor: last === undefined ? null : encodeCursor(list, [last.name]) };
    },
  };
}
