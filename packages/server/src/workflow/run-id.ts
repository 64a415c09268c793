/** The ids of runs that messages start (W12): a UUIDv8 made of project, queue and message, so that a message reaches the same run again. */
import { createHash } from "node:crypto";

/** The id of the run that a message starts. The three are ids as texts; SHA-256 over them, each ended by a line feed. */
export function runIdOf(projectId: string, queueId: string, messageId: string): string {
  const bytes = createHash("sha256").update(`${projectId}\n${queueId}\n${messageId}\n`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
