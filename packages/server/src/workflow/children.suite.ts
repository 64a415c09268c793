/** Runs that wait for runs of other apps, and what happens when those go their own way, on either engine. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
import { type EngineWorld, openEngineWorld } from "./engine-world.suite.ts";
import type { Workflow } from "./executor.suite.ts";

/** What a step failed with, as its run's output. */
const failure = (error: { error: object }): object => error.error;

export function childrenSuite(kind: Engine): void {
  describe(`runs of runs on ${kind}`, () => {
    let w: EngineWorld;
    beforeAll(async () => {
      w = await openEngineWorld(kind);
    });
    afterAll(() => w.close());
    beforeEach(() => w.world.fresh());

    const nap: Workflow = async (_input, step) => step.sleep("nap", 3_600_000);
    /** A parent that waits for a run of a workflow of another app. */
    const waiting =
      (workflow: string, appId: () => string): Workflow =>
      (_input, step) =>
        step.child("other", workflow, null, true, appId()).catch(failure);
    /** Starts a parent and answers it with its child, once both wait. */
    const family = async (workflows: Record<string, Workflow>) => {
      const { row: theirs } = await w.app(workflows);
      const { row } = await w.app({ ...workflows, parent: waiting("nap", () => theirs.id) });
      const id = await w.start(row, "parent");
      await w.until(row, id, ({ status }) => status === "waiting");
      const child = (await w.steps(row, id))[0]?.childId as string;
      return { theirs, row, id, child };
    };

    it("W7: a child's app is named by id, resource name or name, within the project", async () => {
      const hello: Workflow = async () => "hello";
      const { row: theirs } = await w.app({ hello });
      const parent: Workflow = (_input, step) =>
        Promise.all(
          [theirs.id, theirs.resourceName, theirs.name, "nobody"].map((app) => step.child(app, "hello", null, true, app).catch(failure)),
        );
      const { row } = await w.app({ hello, parent });
      const id = await w.start(row, "parent");
      await w.ended(row, id);
      expect(await w.output(row, id)).toEqual(["hello", "hello", "hello", expect.objectContaining({ code: "app_not_found" })]);
    });

    it("W7, W10: the cancellation of a child fails its parent's step with the code cancelled, whether it had begun or not", async () => {
      const { theirs, row, id, child } = await family({ nap });
      await w.until(theirs, child, ({ status }) => status === "waiting");
      await w.runs.cancel(theirs, await w.run(theirs, child));
      await w.ended(row, id);
      expect(await w.output(row, id)).toMatchObject({ code: "cancelled" });

      await w.apps.update(theirs, { state: "paused" });
      const second = await w.start(row, "parent");
      await w.until(row, second, ({ status }) => status === "waiting");
      const unbegun = (await w.steps(row, second))[0]?.childId as string;
      await w.runs.cancel(theirs, await w.run(theirs, unbegun));
      await w.ended(row, second);
      expect(await w.output(row, second)).toMatchObject({ code: "cancelled" });
    });

    it("W5, W7: children of many parents that end at once stand in nobody's way", async () => {
      const leaf: Workflow = async (n: number, step) => step.run("leaf", () => n);
      const four = (workflow: string): Workflow => {
        return (_input, step) => Promise.all([1, 2, 3, 4].map((n) => step.child(`child ${n}`, workflow, n)));
      };
      const { row } = await w.app({ leaf, parent: four("leaf"), family: four("parent") });
      const ids = await Promise.all(Array.from({ length: 6 }, () => w.start(row, "family")));
      for (const id of ids) expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed" });
      if (kind !== "postgres") return;
      // The server says so at the end of a transaction, and not of every one.
      const deadlocks = "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()";
      expect(await w.world.count(deadlocks)).toBe(0);
    });

    it("W1: nothing is left of the runs of a deleted app, whatever their executions still report meanwhile", async () => {
      const busy: Workflow = async (_input, step) => {
        for (let n = 0; n < 200; n++) await step.run(`step ${n}`, () => n);
      };
      const { row } = await w.app({ busy });
      const ids = await Promise.all(Array.from({ length: 10 }, () => w.start(row, "busy")));
      for (const id of ids) await w.seen(row, id, ({ steps }) => steps > 3);
      await w.apps.delete(row);
      while (await w.world.store.run("removeRuns"));
      await w.engine.rest();
      for (const table of ["step", "wait"])
        expect(await w.world.count(`SELECT count(*) AS n FROM ${table} WHERE run_no NOT IN (SELECT no FROM run)`)).toBe(0);
    });

    it("W1, W7: a run that waits for one of an app that is deleted learns of it and goes on", async () => {
      const { theirs, row, id, child } = await family({ nap });
      await w.until(theirs, child, ({ status }) => status === "waiting");
      await w.apps.delete(theirs);
      while (await w.world.store.run("removeRuns"));
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed" });
      expect(await w.output(row, id)).toMatchObject({ code: "app_not_found", message: expect.stringContaining(child) });
    });
  });
}
