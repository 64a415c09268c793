/** What the engine takes and gives back: a request to make, and the one answer or failure that came of it. It knows no queues. */

export interface DeliveryRequest {
  /** As stored: exactly this text is dialled. */
  url: string;
  method: "POST";
  headers: Record<string, string>;
  body: Uint8Array;
  /** One deadline for connecting, headers and body together (P9). */
  timeoutMs: number;
}

/** `refused`: the endpoint rules forbid the address or name (P19). */
export type FailureClass = "timeout" | "connection" | "refused" | "tls";

export type DeliveryResult =
  | {
      kind: "answer";
      status: number;
      headers: Record<string, string | string[] | undefined>;
      /** All of a 2xx up to 1 MiB; of anything else the first 16 KiB. `truncated` says that the endpoint sent more. */
      body: Uint8Array;
      truncated: boolean;
      durationMs: number;
    }
  | {
      kind: "failure";
      class: FailureClass;
      message: string;
      /** What the system calls it, such as `ECONNREFUSED`, where it has a name. */
      code?: string;
      durationMs: number;
    };

/** Makes one request. Never rejects: every way to fail is a `DeliveryResult`. `signal` aborts it as a `connection` failure (shutdown). */
export type Attempt = (request: DeliveryRequest, signal?: AbortSignal) => Promise<DeliveryResult>;

/** P21: what self-hosters open on purpose. Everything not named stays refused. */
export interface EgressPolicy {
  /** Host names, exact, that may resolve to private addresses. */
  allowHosts: readonly string[];
  /** CIDR blocks whose addresses may be dialled. */
  allowCidrs: readonly string[];
  allowHttp: boolean;
  /** Ports besides 443. */
  allowPorts: readonly number[];
  /** This server's own host names, refused as targets (P18). */
  ownHosts: readonly string[];
}
