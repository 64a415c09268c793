export * from "./basaltic-notification.ts";
export * from "./ezgh-push.ts";
export * from "./format.ts";
export * from "./gigadrive-message.ts";
export * from "./retry.ts";
export * from "./signing.ts";
export * from "./verify.ts";
export * from "./workflow-protocol.ts";
