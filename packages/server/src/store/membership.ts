/**
 * Who receives what a topic publishes, by the topic's version: every change of it happens under the topic's row lock and takes a
 * version of its own, so that a publication, which holds the row shared, sees all of a change or nothing of it (T3, T10).
 */
import type { Tx } from "../db/db.ts";
import { TOPIC_COLUMNS, type TopicRow, type TopicSubscriptionRow, topicOf } from "./topic-rows.ts";

/** Locks a topic until the transaction ends; `null` when it has ended or never was. Comes after the counter and before a project. */
export async function lockTopic(tx: Tx, no: number): Promise<TopicRow | null> {
  const [row] = await tx.query(`UPDATE topic SET version = version WHERE no = :no AND ended_at IS NULL RETURNING ${TOPIC_COLUMNS}`, { no });
  return row === undefined ? null : topicOf(row);
}

/** Takes the topic's next version, in which `joining` members more are counted. */
async function nextVersion(tx: Tx, topicNo: number, joining: number): Promise<number> {
  const [row] = await tx.query<{ version: number }>(
    "UPDATE topic SET version = version + 1, members = members + :joining WHERE no = :topicNo RETURNING version",
    { topicNo, joining },
  );
  return Number(row?.version);
}

type Member = Pick<TopicSubscriptionRow, "no" | "topicNo" | "settings">;

async function open(tx: Tx, { no, topicNo, settings }: Member, version: number): Promise<void> {
  await tx.query(
    "INSERT INTO membership (topic_no, subscription_no, since, until, filter, scope) VALUES (:topicNo, :no, :version, NULL, :filter, :scope)",
    {
      no,
      topicNo,
      version,
      filter: settings.filterPolicy === null ? null : JSON.stringify(settings.filterPolicy),
      scope: settings.filterPolicyScope,
    },
  );
}

async function close(tx: Tx, { no, topicNo }: Member, version: number): Promise<void> {
  await tx.query("UPDATE membership SET until = :version WHERE topic_no = :topicNo AND subscription_no = :no AND until IS NULL", {
    no,
    topicNo,
    version,
  });
}

/** From the next publication on the subscription receives. The topic is locked. */
export async function join(tx: Tx, member: Member): Promise<void> {
  await open(tx, member, await nextVersion(tx, member.topicNo, 1));
}

/** From the next publication on the subscription receives nothing. The topic is locked. */
export async function leave(tx: Tx, member: Member): Promise<void> {
  await close(tx, member, await nextVersion(tx, member.topicNo, -1));
}

/** From the next publication on the member's present filter counts. The topic is locked. */
export async function refilter(tx: Tx, member: Member): Promise<void> {
  const version = await nextVersion(tx, member.topicNo, 0);
  await close(tx, member, version);
  await open(tx, member, version);
}

/** Every cold verb of memberships. */
export const membershipVerbs = {
  /** Removes up to `limit` closed memberships that no open notification can need; answers how many. */
  async sweepMemberships(tx: Tx, limit: number): Promise<number> {
    // What is open is few and has an index of its own, which the plus signs make SQLite take; a topic's notifications are many.
    const rows = await tx.query(
      `DELETE FROM membership WHERE (topic_no, subscription_no, since) IN (
         WITH open AS MATERIALIZED (
           SELECT +topic_no AS topic_no, min(version) AS version FROM notification WHERE state <> 'complete' GROUP BY +topic_no)
         SELECT m.topic_no, m.subscription_no, m.since FROM membership m LEFT JOIN open ON open.topic_no = m.topic_no
         WHERE m.until IS NOT NULL AND (open.version IS NULL OR open.version >= m.until) LIMIT :limit)
       RETURNING since`,
      { limit },
    );
    return rows.length;
  },
};
