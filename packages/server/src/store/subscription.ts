/** Cold verbs: subscription. */
export const subscriptionVerbs = {};
