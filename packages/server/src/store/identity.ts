/** Cold verbs: identity. */
export const identityVerbs = {};
