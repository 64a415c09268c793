// A planted bug, loaded into the server by a test: every commit on PostgreSQL is answered before its log is written, as claims may be and
// nothing else. A server that only dies itself loses nothing by it; a database that crashes takes back what was promised.
import pg from "pg";

const { query } = pg.Client.prototype;
const ease = (text) => text.replaceAll("synchronous_commit = on", "synchronous_commit = off");
pg.Client.prototype.query = function (config, ...rest) {
  const eased = typeof config === "string" ? ease(config) : config?.text ? Object.assign(config, { text: ease(config.text) }) : config;
  return query.call(this, eased, ...rest);
};
