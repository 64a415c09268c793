import { expect, it } from "vitest";
import type { AppRow } from "../store/app.ts";
import { createAppMemory } from "./app-memory.ts";

it("A6, W1: calls about runs look their app up once in two seconds, and an app that is deleted here is gone at once", async () => {
  let now = 0;
  const apps = new Map([["shop", { no: 7, id: "i", name: "shop", mode: "pull", queueNo: 3 } as AppRow]]);
  const asked: string[] = [];
  const memory = createAppMemory({ now: () => now }, async (projectNo, reference) => {
    asked.push(`${projectNo} ${reference}`);
    return apps.get(reference) ?? null;
  });
  const shop = { no: 7, id: "i", name: "shop", mode: "pull", queueNo: 3 };
  expect([await memory.find(1, "shop"), await memory.find(1, "shop")]).toEqual([shop, shop]);
  // Of another project, and one that is not there, nothing is remembered.
  await memory.find(2, "shop");
  expect([await memory.find(1, "none"), await memory.find(1, "none")]).toEqual([null, null]);
  expect(asked).toEqual(["1 shop", "2 shop", "1 none", "1 none"]);
  now = 2_000;
  apps.delete("shop");
  expect(await memory.find(1, "shop")).toBeNull();

  apps.set("shop", shop as AppRow);
  await memory.find(1, "shop");
  apps.delete("shop");
  memory.forget(7);
  expect(await memory.find(1, "shop")).toBeNull();
});
