/** Cold verbs: redrive. */
export const redriveVerbs = {};
