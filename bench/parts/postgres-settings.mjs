/** The settings of every PostgreSQL that a bench starts: as a user's, durable, with what `docs/guides/cluster.md` advises. */
export const postgresSettings = {
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
  shared_buffers: "512MB",
  max_wal_size: "4GB",
  autovacuum_naptime: "1s",
};
