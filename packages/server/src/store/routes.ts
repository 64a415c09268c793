/**
 * Where each cold verb goes when queues live on several databases (A14). A verb about one queue goes to that queue's database, by the number
 * in its arguments; a verb that is not named here goes to the default one. The others are the joints: lists go over all databases in one order,
 * sweeps ask each, and what touches a queue and something of the default database is done in steps that can be repeated, or refused.
 */
import { Fault, invalid } from "@millrace/contract";
import { databaseOf } from "./database-numbers.ts";
import type { Database, Databases } from "./databases.ts";
import { isElsewhere, settleElsewhere } from "./elsewhere.ts";
import { createPlaced, deletePlaced, findPlaced, madeUnder } from "./placing.ts";
import type { Args, Result } from "./store.ts";
import type { IdempotencyKey, QueueRow, QueueSettings } from "./types.ts";
import type { ColdVerbs } from "./verbs.ts";

type Verb = keyof ColdVerbs;
interface Answer<Name extends Verb> {
  result: Result<Name>;
  replayed: boolean;
}
/** Runs a verb on one database, under the caller's idempotency key if there is one. */
export type Call = (<Name extends Verb>(database: Database, verb: Name, args: Args<Name>) => Promise<Answer<Name>>) & {
  key?: IdempotencyKey | null;
};
type Route<Name extends Verb> = (databases: Databases, call: Call, ...args: Args<Name>) => Promise<Answer<Name>>;

/** The queue that a verb is about. */
export const queueOf: { [Name in Verb]?: (...args: Args<Name>) => number } = {
  forgoPlaced: (no) => no,
  stats: (no) => no,
  purge: (no) => no,
  peekMessages: (no) => no,
  listMessages: (no) => no,
  getMessage: (no) => no,
  messageSeq: (no) => no,
  deleteMessage: (no) => no,
  sendMessages: (rows) => rows[0]?.queueNo ?? 0,
  sendEach: (rows) => rows[0]?.queueNo ?? 0,
  startRedrive: ({ queueNo }) => queueNo,
  getRedrive: (queueNo) => queueNo,
  cancelRedrive: (queueNo) => queueNo,
  createSchedule: ({ queueNo }) => queueNo,
  updateSchedule: ({ queueNo }) => queueNo,
  deleteSchedule: (queueNo) => queueNo,
  getSchedule: (queueNo) => queueNo,
  listSchedules: (queueNo) => queueNo,
  loadConsumer: (queueNo) => queueNo,
  saveConsumerHealth: (queueNo) => queueNo,
  createSubscription: ({ queueNo }) => queueNo,
  loadSubscription: (queueNo) => queueNo,
  listAttempts: ({ queueNo }) => queueNo,
  leftOpen: ({ queueNo }) => queueNo,
};

const fresh = <T>(result: T): { result: T; replayed: boolean } => ({ result, replayed: false });
const named = <Row extends QueueRow>(row: Row, { name }: Database): Row => ({ ...row, database: name });

/** Refuses a dead-letter queue that does not live beside its source: moving a message is one transaction. */
function checkDeadLetter(databases: Databases, source: Database, { deadLetterNo }: Partial<QueueSettings>): void {
  if (deadLetterNo == null || databaseOf(deadLetterNo) === source.no) return;
  const bound = `a queue on the database ${source.name}, as its source is`;
  throw invalid("redrivePolicy.deadLetterQueueId", bound, `one on ${databases.of(deadLetterNo).name}`);
}

/** Refuses a queue that does not live beside the topics: what is delivered to it is sent in the transaction that says so. */
function checkBesideTopics({ home, of }: Databases, path: string, queueNo: number | null): void {
  if (queueNo === null || databaseOf(queueNo) === home.no) return;
  throw invalid(path, `a queue on the database ${home.name}, as topics are`, `one on ${of(queueNo).name}`);
}

/** What several databases answer. Those that can't be reached are passed over, unless it is all of them. */
async function asked<Result>(databases: readonly Database[], ask: (database: Database) => Promise<{ result: Result }>): Promise<Result[]> {
  const answers = await Promise.allSettled(databases.map(ask));
  const results = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value.result] : []));
  const lost = answers.find((answer) => answer.status === "rejected");
  if (results.length === 0 && lost !== undefined) throw lost.reason;
  return results;
}

/** Rows by the database of their queue. */
function byDatabase<Row extends { queueNo: number }>({ of }: Databases, rows: readonly Row[]): Map<Database, Row[]> {
  const parts = new Map<Database, Row[]>();
  for (const row of rows) {
    const database = of(row.queueNo);
    parts.set(database, [...(parts.get(database) ?? []), row]);
  }
  return parts;
}

/** A subscription is on the database of its queue, which only that one knows: the default one is asked first, then the others. */
async function sought<Name extends Verb>({ home, all }: Databases, call: Call, verb: Name, args: Args<Name>): Promise<Answer<Name>> {
  const isMissing = (error: unknown): boolean => error instanceof Fault && error.code === "subscription_not_found";
  let missing: unknown;
  try {
    return await call(home, verb, args);
  } catch (error) {
    if (!isMissing(error)) throw error;
    missing = error;
  }
  const answers = await Promise.allSettled(all.slice(1).map((database) => call(database, verb, args)));
  for (const answer of answers) if (answer.status === "fulfilled") return answer.value;
  // One that can't be asked may have it.
  for (const answer of answers) if (answer.status === "rejected" && !isMissing(answer.reason)) throw answer.reason;
  throw missing;
}

/** Places in lists that go over all databases, one after the other: the database's number, then the place in its own list. */
const SPAN = 2 ** 40;

/** One page of such a list: that of the database which the place is in. The last one's end is the list's. */
async function page<Page extends { next: number | null }>(
  databases: readonly Database[],
  after: number,
  read: (database: Database, after: number) => Promise<Page>,
): Promise<{ found: Page | null; placed: (no: number) => number; next: number | null }> {
  const no = Math.floor(after / SPAN);
  const database = databases.find((each) => each.no >= no);
  if (database === undefined) return { found: null, placed: (at) => at, next: null };
  const found = await read(database, database.no === no ? after % SPAN : 0);
  const placed = (at: number): number => database.no * SPAN + at;
  const following = databases.find((each) => each.no > database.no);
  return { found, placed, next: found.next !== null ? placed(found.next) : following === undefined ? null : following.no * SPAN };
}

/** Those that have anything in force here: what the others have is read once they are there. */
const openedOf = ({ all }: Databases): Database[] => all.filter(({ opened }) => opened);

/** The verbs that are more than one verb of one database. */
export const routes: { [Name in Verb]?: Route<Name> } = {
  async createQueue(databases, call, given) {
    const at = databases.named(given.database ?? databases.home.name);
    if (at === undefined) throw invalid("database", `one of ${databases.all.map(({ name }) => name).join(", ")}`, given.database);
    checkDeadLetter(databases, at, given.settings);
    const { result, replayed } = await createPlaced(databases, call, at, given);
    return { result: named(result, at), replayed };
  },
  async madeQueue(databases, _call, key) {
    const made = await madeUnder(databases, key);
    return fresh(made === null ? null : named(made, databases.of(made.no)));
  },
  async getQueue(databases, call, no) {
    const at = databases.of(no);
    const { result } = await call(at, "getQueue", [no]);
    return fresh(result === null ? null : named(result, at));
  },
  async findQueue(databases, call, projectNo, environment, reference) {
    const { result } = await call(databases.home, "findQueue", [projectNo, environment, reference]);
    if (result !== null) return fresh(result);
    const found = await findPlaced(databases, projectNo, environment, reference);
    return fresh(found === null ? null : named(found, databases.of(found.no)));
  },
  async listQueues({ all }, call, projectNo, environment, after, limit) {
    const lists = await Promise.all(
      all.map(async (database) => {
        const { result } = await call(database, "listQueues", [projectNo, environment, after, limit]);
        return result.map((queue) => named(queue, database));
      }),
    );
    // Names are ordered by their bytes on every database: the first of all are among the first of each.
    const merged = lists.flat().sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    return fresh(merged.slice(0, limit));
  },
  async updateQueue(databases, call, no, change) {
    const at = databases.of(no);
    checkDeadLetter(databases, at, change);
    return fresh(named((await call(at, "updateQueue", [no, change])).result, at));
  },
  async deleteQueue(databases, call, no) {
    if (!isElsewhere(no)) return call(databases.home, "deleteQueue", [no]);
    return fresh(await deletePlaced(databases, no));
  },

  getSubscription: (databases, call, ...args) => sought(databases, call, "getSubscription", args),
  updateSubscription: (databases, call, ...args) => sought(databases, call, "updateSubscription", args),
  setSubscriptionState: (databases, call, ...args) => sought(databases, call, "setSubscriptionState", args),
  rotateSecret: (databases, call, ...args) => sought(databases, call, "rotateSecret", args),
  deleteSubscription: (databases, call, ...args) => sought(databases, call, "deleteSubscription", args),
  async listSubscriptions(databases, call, ask) {
    if (ask.queueNo !== null) return call(databases.of(ask.queueNo), "listSubscriptions", [ask]);
    const read = async (database: Database, after: number) => (await call(database, "listSubscriptions", [{ ...ask, after }])).result;
    const { found, placed, next } = await page(databases.all, ask.after, read);
    return fresh({ rows: (found?.rows ?? []).map(({ no, row }) => ({ no: placed(no), row })), next });
  },
  async activeSubscriptions(databases, call, after, limit) {
    const read = async (database: Database, from: number) => (await call(database, "activeSubscriptions", [from, limit])).result;
    const { found, next } = await page(openedOf(databases), after, read);
    return fresh({ lanes: found?.lanes ?? [], next });
  },
  async listConsumers(databases, call, after, limit) {
    const rows: Result<"listConsumers"> = [];
    // Queues are numbered by database: one list after the other is one ascending list.
    for (const database of openedOf(databases))
      if (database.no >= databaseOf(after) && rows.length < limit)
        rows.push(...(await call(database, "listConsumers", [after, limit - rows.length])).result);
    return fresh(rows);
  },
  // Where another database takes its part, what one that is away can't take is lost: its subscriptions keep the health stored before until
  // their next delivery; no message depends on it.
  async saveStatus(databases, call, rows) {
    const parts = byDatabase(databases, rows);
    await asked([...parts.keys()], (database) => call(database, "saveStatus", [parts.get(database) ?? []]));
    return fresh(rows.length);
  },
  async addAttempts(databases, call, rows) {
    const parts = byDatabase(databases, rows);
    const kept = await asked([...parts.keys()], (database) => call(database, "addAttempts", [parts.get(database) ?? []]));
    return fresh(kept.reduce((sum, n) => sum + n, 0));
  },
  sealedUnder: async ({ all }, call) => fresh([...new Set((await asked(all, (database) => call(database, "sealedUnder", []))).flat())]),

  async createTopicSubscription(databases, call, given) {
    checkBesideTopics(databases, "endpoint", given.targetNo);
    checkBesideTopics(databases, "redrive_policy.dead_letter_queue", given.settings.deadLetterNo);
    return call(databases.home, "createTopicSubscription", [given]);
  },
  async updateTopicSubscription(databases, call, no, change) {
    checkBesideTopics(databases, "redrive_policy.dead_letter_queue", change.deadLetterNo ?? null);
    return call(databases.home, "updateTopicSubscription", [no, change]);
  },
  async startRuns(databases, call, rows) {
    const { result } = await call(databases.home, "startRuns", [rows]);
    const ended = (outcome: (typeof result)[number]) =>
      outcome === "started" || outcome === "existing" ? ({ outcome: "ack" } as const) : null;
    return fresh(await settleElsewhere(databases, rows, result, ended));
  },
  async resumeRuns(databases, call, rows) {
    const { result } = await call(databases.home, "resumeRuns", [rows]);
    const ended = (outcome: (typeof result)[number], { leaseMs }: (typeof rows)[number]) =>
      outcome === "resumed" || outcome === "kept"
        ? ({ outcome: "ack" } as const)
        : outcome === "more"
          ? ({ outcome: "extend", delayMs: leaseMs } as const)
          : null;
    return fresh(await settleElsewhere(databases, rows, result, ended));
  },
};
