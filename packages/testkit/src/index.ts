/** What the tests share: real PostgreSQL servers, certificates, receivers, a name service, scratch folders and the history checker. */
export { type Certificates, certificates, type Leaf } from "./certificates.ts";
export { type MillraceOptions, type MillraceProcess, millrace } from "./faults/millrace-process.ts";
export {
  ask as askForeignVerifier,
  type ForeignReceiver,
  type Language,
  type Question,
  serve as serveForeignReceiver,
} from "./foreign-verifier.ts";
export { checkHistory, type HistoryEvent, type Violation } from "./history.ts";
export { findPostgres, type PostgresServer, type StopMode, startPostgres } from "./postgres.ts";
export {
  type AnswerFunction,
  type ReceivedRequest,
  type Receiver,
  type ReceiverAnswer,
  type ReceiverOptions,
  receiver,
} from "./receiver.ts";
export { type Resolve, type ResolvedAddress, type ResolverEntry, resolver } from "./resolver.ts";
export { scratch } from "./scratch.ts";
export { postgres, type SharedPostgres } from "./shared-postgres.ts";
export { COMMITTED, type TcpProxy, tcpProxy } from "./tcp-proxy.ts";
export { lacks } from "./tools.ts";
