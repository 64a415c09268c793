// A planted bug, loaded into the server by a test: every commit on PostgreSQL is answered before its log is written, as claims may be and
// nothing else. A server that only dies itself loses nothing by it; a database that crashes takes back what was promised.
import pg from "pg";

const { connect } = pg.Client.prototype;
pg.Client.prototype.connect = function (...rest) {
  const { connectionParameters: asked } = this;
  asked.options = asked.options?.replaceAll("synchronous_commit=on", "synchronous_commit=off");
  return connect.apply(this, rest);
};
