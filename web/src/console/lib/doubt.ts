// Failures after which nobody knows whether it was done.
import { isPassing, type Failure } from '../../api/client';

/** The answer is lost, or the server gave up waiting for itself. Who came too often was turned away at the door. */
export function mayBeDone(failure: Failure): boolean {
  return isPassing(failure) && failure.code !== 'rate_limited';
}
