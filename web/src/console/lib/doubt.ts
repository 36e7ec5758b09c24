// Failures that leave it unknown whether the change was made.
import { isPassing, type Failure } from '../../api/client';

/**
 * The answer was lost, or the server's own wait timed out. A rate-limited request, however, was never carried
 * out.
 */
export function mayBeDone(failure: Failure): boolean {
  return isPassing(failure) && failure.code !== 'rate_limited';
}
