export * from "./errors.ts";
export * from "./gigadrive/config.ts";
export * as gigadriveShapes from "./gigadrive/shapes.ts";
export { nearest } from "./nearest.ts";
export * from "./operation.ts";
export { type OperationName, type Operations, operations } from "./operations.ts";
export * from "./routes.ts";
export * as shapes from "./shapes.ts";
export * as workflowProtocol from "./workflows/protocol.ts";
