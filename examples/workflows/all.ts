// Every workflow of this folder, for the programs that serve them.
import { expense } from "./approval.ts";
import { thumbnails } from "./fan-out.ts";
import { nightly } from "./nightly.ts";
import { order } from "./order.ts";
import { trip } from "./saga.ts";

export const workflows = [order, thumbnails, trip, expense, nightly];
