// Where a visitor goes after signing in: back to where they were.
import { safePath } from '../../lib/router.svelte';

/** Nobody comes back to these. */
export const isAboutSigningIn = (path: string) => ['/sign-in', '/sign-up'].includes(path);

/** The address of the sign-in page that comes back to `path`, which may have a query. */
export function signInAddress(path: string, page: '/sign-in' | '/sign-up' = '/sign-in'): string {
  return path === '/' || isAboutSigningIn(path) ? page : `${page}?to=${encodeURIComponent(path)}`;
}

/** Where `?to=` says, if that is a page of ours. */
export function returnPath(query: URLSearchParams): string {
  const path = safePath(query.get('to'));
  return isAboutSigningIn(path.replace(/[?#].*/, '')) ? '/' : path;
}
