// The API, with types generated from its own document. A call never throws: it returns data or a problem.
import createClient from 'openapi-fetch';
import type { paths, Problem } from './schema';

/** The codes of the API, and `network` for a call that got no answer. */
export type ErrorCode = Problem['code'] | 'network';

export interface Failure {
  code: ErrorCode;
  status: number;
  detail: string;
  /** Complaints by field name, on 422. */
  fields: Record<string, string>;
  /** When it is worth trying again. */
  retryAfterSeconds: number | undefined;
}

export type Outcome<T> = { ok: true; data: T } | { ok: false; failure: Failure };

/** The longest wait for an answer. A later one no longer comes, for example after the network has changed. */
const PATIENCE_MS = 15_000;

/** Ends by itself. A call that brings its own `signal`, or null, sets its own limit. */
class PatientRequest extends Request {
  constructor(input: RequestInfo | URL, init?: RequestInit) {
    super(input, { signal: AbortSignal.timeout(PATIENCE_MS), ...init });
  }
}

export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: 'same-origin',
  Request: PatientRequest,
});

/** Waits for a call of `api`. */
export async function outcome<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<Outcome<T>> {
  try {
    const { data, error, response } = await call;
    return response.ok ? { ok: true, data: data as T } : { ok: false, failure: failureOf(error, response) };
  } catch {
    return {
      ok: false,
      failure: { code: 'network', status: 0, detail: '', fields: {}, retryAfterSeconds: 1 },
    };
  }
}

export function failureOf(error: unknown, response: Response): Failure {
  const problem = (typeof error === 'object' && error !== null ? error : {}) as Partial<Problem>;
  const retryAfter = Number(response.headers.get('Retry-After') ?? NaN);
  return {
    // The error of a broken proxy has no code of ours.
    code: problem.code ?? (response.status >= 500 ? 'unavailable' : 'bad_request'),
    status: response.status,
    detail: problem.detail ?? '',
    fields: Object.fromEntries((problem.errors ?? []).map(({ field, message }) => [field, message])),
    retryAfterSeconds: Number.isFinite(retryAfter) ? retryAfter : undefined,
  };
}

/** The failure without its complaint about `field`, for when that field is changed. */
export function mended(failure: Failure | undefined, field: string): Failure | undefined {
  if (!failure?.fields[field]) return failure;
  const { [field]: _, ...fields } = failure.fields;
  return Object.keys(fields).length > 0 ? { ...failure, fields } : undefined;
}

/** The same for signing in, where wrong credentials are a complaint about both fields. */
export function retyped(failure: Failure | undefined, field: 'phone' | 'password'): Failure | undefined {
  return failure?.code === 'bad_credentials' ? undefined : mended(failure, field);
}

/** Whether the same call may succeed a little later. */
export function isPassing(failure: Failure): boolean {
  return ['network', 'busy', 'unavailable', 'rate_limited', 'request_timeout', 'internal'].includes(
    failure.code,
  );
}
