/** Ids that follow from what they stand for, so that whoever makes them again makes the same: no caller may choose one of their kind. */
import { createHash } from "node:crypto";

/** A UUIDv8 (RFC 9562) of the first 16 bytes of the text's SHA-256. */
export function derivedId(text: string): string {
  const bytes = createHash("sha256").update(text).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
