/** From a body to a checked payload: decode, then validate. Both may be asynchronous; whatever fails is an `InvalidPayloadError`. */
import { type Codec, decodeByContentType } from "./codec.ts";
import { asksForLater, InvalidPayloadError } from "./outcome.ts";

interface StandardResult<T> {
  readonly value?: T;
  readonly issues?: readonly { readonly message: string }[] | undefined;
}

/** What Zod, Valibot, ArkType and others implement: https://standardschema.dev */
export interface StandardSchema<T> {
  readonly "~standard": {
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
    readonly types?: { readonly output: T } | undefined;
  };
}

/** A function that answers the checked payload or throws, such as Zod's `Schema.parse`; or a schema. */
export type Validate<T> = ((value: unknown) => T | Promise<T>) | StandardSchema<T>;

/** The checked value. Rejects with whatever the validation says. */
export async function check<T>(validate: Validate<T>, value: unknown): Promise<T> {
  // A schema may be callable as well (ArkType): its own interface is the one that says what failed.
  if (!("~standard" in validate)) return validate(value);
  const result = await validate["~standard"].validate(value);
  if (result.issues !== undefined) throw Object.assign(new Error("the payload does not fit the schema"), { issues: result.issues });
  return result.value as T;
}

/** The payload in a body. Rejects with `InvalidPayloadError`, or with the `RetryLaterError` that a validation threw. */
export async function openPayload<T>(
  body: Uint8Array,
  contentType: string | undefined,
  { codec, validate }: { codec?: Codec<T>; validate?: Validate<T> },
): Promise<T> {
  let decoded: unknown;
  try {
    decoded = codec === undefined ? decodeByContentType(body, contentType) : await codec.decode(body, contentType);
  } catch (error) {
    throw new InvalidPayloadError(`the body cannot be read as ${contentType ?? "anything"}`, error);
  }
  if (validate === undefined) return decoded as T;
  try {
    return await check(validate, decoded);
  } catch (error) {
    if (asksForLater(error) !== undefined) throw error;
    throw new InvalidPayloadError("the payload is not valid", error);
  }
}
