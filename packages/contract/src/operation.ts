/**
 * An operation as data: its route, what it takes and answers, its errors and the permission that guards it.
 * Server, client, CLI and OpenAPI are derived from this value; nothing about a route is written a second time.
 */
import { z } from "zod";
import type { ErrorCode } from "./errors.ts";

export interface Operation<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
> {
  /** One sentence for the reference. */
  summary: string;
  /** Guards the operation (A6); `null` for operations that only need a valid key. */
  permission: string | null;
  /** 200 unless given: 201 for what creates, 204 for what answers nothing. */
  status: 200 | 201 | 204;
  params: Params;
  query: Query;
  /** `z.undefined()` where the operation takes no body. */
  body: Body;
  answer: Answer;
  errors: readonly ErrorCode[];
  /** Whether `Idempotency-Key` is honoured (Q12): everything that creates or sends. */
  idempotent: boolean;
  /** Bytes; 1 MiB unless given. */
  bodyLimit: number;
}

export type Input<O> =
  O extends Operation<infer P, infer Q, infer B> ? { params: z.output<P>; query: z.output<Q>; body: z.output<B> } : never;
export type Answer<O> = O extends Operation<z.ZodType, z.ZodType, z.ZodType, infer A> ? z.input<A> : never;

const none = z.undefined();
const nothing = z.strictObject({});

/** An operation with what most have in common filled in. */
export function operation<
  P extends z.ZodType,
  A extends z.ZodType,
  Q extends z.ZodType = typeof nothing,
  B extends z.ZodType = typeof none,
>(
  given: { summary: string; permission: string | null; params: P; answer: A; query?: Q; body?: B } & Partial<
    Pick<Operation, "status" | "errors" | "idempotent" | "bodyLimit">
  >,
): Operation<P, Q, B, A> {
  return {
    status: 200,
    errors: [],
    idempotent: false,
    bodyLimit: 1024 * 1024,
    query: nothing as unknown as Q,
    body: none as unknown as B,
    ...given,
  };
}
