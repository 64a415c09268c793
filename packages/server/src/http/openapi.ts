/**
 * The OpenAPI document, derived from the contract: every operation with its input, answers, errors, permission and an example. What
 * it says is what the server does, since both read the same values.
 */
import {
  basalticShapes,
  type ErrorCode,
  errorStatus,
  gigadriveShapes,
  type Operation,
  type OperationName,
  operations,
  routes,
  shapes,
  workflowShapes,
} from "@millrace/contract";
import { z } from "zod";
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject, type ZodOpenApiResponsesObject } from "zod-openapi";
import { answerExamples, bodyExamples } from "./openapi-examples.ts";

const problem = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(errorStatus) as [ErrorCode, ...ErrorCode[]]).meta({ description: "What went wrong; see docs/errors.md." }),
      message: z.string(),
      requestId: z.string(),
      details: z
        .object({
          path: z.string().optional(),
          bound: z.string().optional(),
          got: z.string().optional(),
          index: z.int().optional(),
          permission: z.string().optional(),
          retryAfterSeconds: z.number().optional(),
        })
        .optional(),
    }),
  })
  .meta({ id: "Problem", description: "The body of every error answer." });

/** Shapes that get a name of their own in the document. */
const named: Record<string, z.ZodType> = {
  Organization: shapes.organization,
  Project: shapes.project,
  Key: shapes.key,
  Queue: shapes.queue,
  QueueStats: shapes.queueStats,
  PeekedMessage: shapes.peekedMessage,
  Redrive: shapes.redrive,
  Subscription: shapes.subscription,
  Attempt: shapes.attempt,
  GigadriveQueue: gigadriveShapes.queue,
  GigadriveMessage: gigadriveShapes.record,
  Schedule: gigadriveShapes.schedule,
  Deployment: gigadriveShapes.deployment,
  Environment: gigadriveShapes.environmentRecord,
  Topic: basalticShapes.topicRecord,
  TopicSubscription: basalticShapes.subscriptionRecord,
  App: workflowShapes.app,
  Workflow: workflowShapes.workflow,
  Run: workflowShapes.run,
  Step: workflowShapes.step,
};

/** What any operation may answer besides its own errors. */
const always: readonly ErrorCode[] = ["invalid_request", "unauthorized", "overloaded", "unavailable", "internal"];
const withBody: readonly ErrorCode[] = ["invalid_json", "payload_too_large", "unsupported_media_type"];
const whenIdempotent: readonly ErrorCode[] = ["idempotency_conflict", "idempotency_in_progress"];

const takesBody = (operation: Operation): boolean => operation.body.def.type !== "undefined";

/** Every code that an operation may answer. */
function errorsOf(operation: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...always, ...operation.errors]);
  if (operation.permission !== null) codes.add("permission_denied");
  if (takesBody(operation)) for (const code of withBody) codes.add(code);
  if (operation.idempotent) for (const code of whenIdempotent) codes.add(code);
  return [...codes];
}

const exampleProblem = (code: ErrorCode) => ({
  error: { code, message: `what was wrong, in words (${code})`, requestId: "V1StGXR8Z5jd.2s" },
});

function answersOf(name: OperationName, operation: Operation): ZodOpenApiResponsesObject {
  const responses: ZodOpenApiResponsesObject = {
    [`${operation.status}`]:
      operation.status === 204
        ? { description: "Done." }
        : {
            description: "Done.",
            content: { "application/json": { schema: operation.answer, example: answerExamples[name] } },
          },
  };
  const codes = new Map<number, ErrorCode[]>();
  for (const code of errorsOf(operation)) codes.set(errorStatus[code], [...(codes.get(errorStatus[code]) ?? []), code]);
  for (const [status, list] of [...codes].sort(([a], [b]) => a - b)) {
    const examples = Object.fromEntries(list.map((code) => [code, { value: exampleProblem(code) }]));
    const retry = status === 429 || status === 503;
    responses[`${status}` as "400"] = {
      description: list.map((code) => `\`${code}\``).join(", "),
      ...(retry ? { headers: { "Retry-After": { description: "Seconds to wait.", schema: { type: "integer" as const } } } } : {}),
      content: { "application/json": { schema: problem, examples } },
    };
  }
  return responses;
}

const accountId = z.string().min(1).max(200).optional().meta({
  description: "The id or the name of a project. Required with a key of the whole installation; another key means its own.",
});

function describe(name: OperationName, operation: Operation): ZodOpenApiOperationObject {
  const ofAccount = operation.permission?.startsWith("notifications.") === true;
  const tag = name.startsWith("Gigadrive")
    ? "Gigadrive"
    : ofAccount
      ? "Topics"
      : /^(deployments|environments)/.test(operation.permission ?? "")
        ? "Deployments"
        : /organizations|projects|keys/.test(operation.permission ?? "organizations")
          ? "Identity"
          : operation.permission?.startsWith("queues.subscriptions")
            ? "Subscriptions"
            : operation.permission?.startsWith("queues.messages")
              ? "Messages"
              : "Queues";
  const idempotencyKey = z.string().min(1).max(255).optional().meta({
    description: "1 to 255 printable ASCII characters. The same key with the same body within 48 hours answers the first result again.",
  });
  const headers = {
    ...(operation.idempotent ? { "Idempotency-Key": idempotencyKey } : {}),
    ...(ofAccount ? { "X-Account-Id": accountId } : {}),
  };
  return {
    operationId: name,
    summary: operation.summary,
    description: operation.permission === null ? "Needs a key." : `Needs the permission \`${operation.permission}\`.`,
    tags: [tag],
    requestParams: {
      path: operation.params as z.ZodObject,
      query: operation.query as z.ZodObject,
      ...(Object.keys(headers).length === 0 ? {} : { header: z.object(headers) }),
    },
    ...(takesBody(operation)
      ? {
          requestBody: {
            required: !operation.body.safeParse(undefined).success,
            description: `At most ${operation.bodyLimit.toLocaleString("en")} bytes.`,
            content: { "application/json": { schema: operation.body, example: bodyExamples[name] } },
          },
        }
      : {}),
    responses: answersOf(name, operation),
  };
}

/** The document, ready to be stringified. `version` is the product's. */
export function createOpenapi(version: string): Record<string, unknown> {
  const paths: ZodOpenApiPathsObject = {};
  for (const name of Object.keys(operations) as OperationName[]) {
    const { method, path } = routes[name];
    paths[path] = { ...paths[path], [method.toLowerCase()]: describe(name, operations[name]) };
  }
  return createDocument({
    openapi: "3.1.0",
    info: {
      title: "Millrace",
      version,
      description: "Durable queues that push their messages. Organizations, projects and queues are named by id or by name.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ key: [] }, { token: [] }],
    tags: ["Queues", "Messages", "Subscriptions", "Gigadrive", "Deployments", "Topics", "Identity"].map((name) => ({ name })),
    components: {
      schemas: named,
      securitySchemes: {
        key: { type: "http", scheme: "bearer", description: "An API key, `mlr_…`, or a token of `/oauth/token`." },
        token: {
          type: "oauth2",
          description: "Trades a key's id and the key for a one-hour token.",
          flows: { clientCredentials: { tokenUrl: "/oauth/token", scopes: {} } },
        },
      },
    },
    paths,
  }) as unknown as Record<string, unknown>;
}
