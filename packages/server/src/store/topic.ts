/**
 * Cold verbs of topics. A name is unique among a project's topics that have not ended; a number is never given twice. A topic that is
 * deleted takes no publication from that commit on; what hangs on it ends afterwards, step by step (`topic-ending.ts`).
 */
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { nextNo } from "./identity.ts";
import { laneChanged } from "./lane-change.ts";
import { lockTopic } from "./membership.ts";
import { TOPIC_COLUMNS, type TopicRow, type TopicSettings, topicOf } from "./topic-rows.ts";

/** A new topic; the id is drawn by the caller. */
export type NewTopic = Pick<TopicRow, "id" | "projectNo" | "name" | "fifo" | "settings">;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const gone = (): Fault => new Fault("topic_not_found", "there is no such topic");

/** Every cold verb of topics themselves. */
export const topicVerbs = {
  /** Throws `topic_exists`, `project_not_found`. */
  async createTopic(tx: Tx, given: NewTopic): Promise<TopicRow> {
    const no = await nextNo(tx);
    const [project] = await tx.query("SELECT no FROM project WHERE no = :no", { no: given.projectNo });
    if (project === undefined) throw new Fault("project_not_found", "there is no such project");
    const [row] = await tx.query(
      `INSERT INTO topic (no, id, project_no, name, fifo, settings, version, members, subscriptions, ended_at, created_at, updated_at)
       VALUES (:no, :id, :projectNo, :name, :fifo, :settings, 1, 0, 0, NULL, :now, :now) ON CONFLICT DO NOTHING RETURNING ${TOPIC_COLUMNS}`,
      { ...given, no, settings: JSON.stringify(given.settings), now: tx.now },
    );
    if (row === undefined) throw new Fault("topic_exists", `there is a topic named ${given.name} already`);
    return topicOf(row);
  },

  /** By id or name, which never has an id's form; `null` when there is none. */
  async findTopic(tx: Tx, projectNo: number, reference: string): Promise<TopicRow | null> {
    const column = UUID.test(reference) ? "id" : "name";
    const [row] = await tx.query(
      `SELECT ${TOPIC_COLUMNS} FROM topic WHERE project_no = :projectNo AND ${column} = :reference AND ended_at IS NULL`,
      { projectNo, reference: column === "id" ? reference.toLowerCase() : reference },
    );
    return row === undefined ? null : topicOf(row);
  },

  /** Up to `limit` topics of a project whose names come after `after`, by name. */
  async listTopics(tx: Tx, projectNo: number, after: string, limit: number): Promise<TopicRow[]> {
    const rows = await tx.query(
      `SELECT ${TOPIC_COLUMNS} FROM topic WHERE project_no = :projectNo AND ended_at IS NULL AND name > :after ORDER BY name LIMIT :limit`,
      { projectNo, after, limit },
    );
    return rows.map(topicOf);
  },

  /** Changes settings; what is not named stays. Throws `topic_not_found`. */
  async updateTopic(tx: Tx, no: number, change: Partial<TopicSettings>): Promise<TopicRow> {
    const topic = await lockTopic(tx, no);
    if (topic === null) throw gone();
    // A topic's number is no queue's: it stands for all lanes of the topic's subscriptions.
    await laneChanged(tx, no);
    const [row] = await tx.query(`UPDATE topic SET settings = :settings, updated_at = :now WHERE no = :no RETURNING ${TOPIC_COLUMNS}`, {
      no,
      settings: JSON.stringify({ ...topic.settings, ...change }),
      now: tx.now,
    });
    if (row === undefined) throw gone();
    return topicOf(row);
  },

  /** Ends a topic. Throws `topic_not_found`. */
  async deleteTopic(tx: Tx, no: number): Promise<null> {
    const rows = await tx.query(
      "UPDATE topic SET ended_at = :now, version = version + 1 WHERE no = :no AND ended_at IS NULL RETURNING no",
      {
        no,
        now: tx.now,
      },
    );
    if (rows.length === 0) throw gone();
    await laneChanged(tx, no);
    return null;
  },
};
