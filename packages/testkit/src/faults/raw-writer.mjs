// Writes rows into a SQLite file as fast as it can and prints each row's number once the commit returned. Proves the shim itself.
import { writeSync } from "node:fs";
import Database from "better-sqlite3";

const [file, synchronous] = process.argv.slice(2);
const db = new Database(file);
db.pragma("journal_mode = WAL");
db.pragma(`synchronous = ${synchronous}`);
db.pragma("wal_autocheckpoint = 50");
db.exec("CREATE TABLE IF NOT EXISTS m (id integer PRIMARY KEY, body text)");
const insert = db.prepare("INSERT INTO m (body) VALUES (?)");
for (;;) writeSync(1, `${insert.run("x".repeat(200)).lastInsertRowid}\n`);
