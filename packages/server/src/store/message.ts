/** Cold verbs: message. */
export const messageVerbs = {};
