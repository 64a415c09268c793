/** Cold verbs: queue. */
export const queueVerbs = {};
