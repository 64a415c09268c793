/**
 * Where numbers come from (A14): a queue's number says which database it lives on, and so does a message's first one, so that neither
 * has to be looked up and no two databases ever give out the same. The default database is number 0. Databases agree on these bounds for ever.
 */

/** The name of the database that has everything but the queues placed elsewhere. */
export const DEFAULT_DATABASE = "default";
/** How many other databases an installation may ever have. */
export const MOST_DATABASES = 63;
/** How many queues may ever be made on each of them. */
export const QUEUES_EACH = 2 ** 24;
/** Queues on the default database have lower numbers, all others this one or higher. */
export const FIRST_PLACED_QUEUE = 2 ** 30;

const FIRST_MESSAGE = 2 ** 52;
const MESSAGES_EACH = 2 ** 46;

/** The number of the database that a queue lives on. */
export const databaseOf = (queueNo: number): number =>
  queueNo < FIRST_PLACED_QUEUE ? 0 : Math.floor((queueNo - FIRST_PLACED_QUEUE) / QUEUES_EACH);

/** The number of the `n`th queue, from 0, that is made on another database. */
export const placedQueueNo = (databaseNo: number, n: number): number => FIRST_PLACED_QUEUE + databaseNo * QUEUES_EACH + n;

/** From which number on another database counts its messages. */
export const firstMessageOf = (databaseNo: number): number => FIRST_MESSAGE + databaseNo * MESSAGES_EACH;
