// Where a visitor goes after signing in: back to where they were.
import { safePath } from '../../lib/router.svelte';

/** Nobody returns to these. */
export const isAboutSigningIn = (path: string) => ['/sign-in', '/sign-up'].includes(path);

/** The address of the sign-in page that returns to `path`, which may have a query. */
export function signInAddress(path: string, page: '/sign-in' | '/sign-up' = '/sign-in'): string {
  return path === '/' || isAboutSigningIn(path) ? page : `${page}?to=${encodeURIComponent(path)}`;
}

/** The target of `?to=`, if it is one of our pages. */
export function returnPath(query: URLSearchParams): string {
  const path = safePath(query.get('to'));
  return isAboutSigningIn(path.replace(/[?#].*/, '')) ? '/' : path;
}
