/**
 * What a query adds to read a queue's messages in the order of their numbers. It is always true; the index `message_queue` serves only those
 * that say it. PostgreSQL takes any index for as good as the primary key where it believes a table empty, and this one has the numbers too:
 * then whoever names messages by number would read the whole of it (`docs/decisions/022-plans-believe-no-statistics.md`).
 */
export const ANY_QUEUE = "queue_no > 0";
