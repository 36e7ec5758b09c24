// A page that was opened before a new version came may ask for a file that is gone. Then it begins anew, at the same address.
// If the network is to blame, it does not: that would lose what was typed, and help nobody.
addEventListener('vite:preloadError', () => void renew());

/** Begins anew if the server has another version of this page. */
export async function renew(): Promise<void> {
  const newest = await fetch(location.pathname, { cache: 'no-cache', headers: { Accept: 'text/html' } })
    .then((answer) => (answer.ok ? answer.text() : undefined))
    .catch(() => undefined);
  if (newest === undefined) return;
  const page = new DOMParser().parseFromString(newest, 'text/html');
  if (scripts(page) !== scripts(document)) location.reload();
}

/** Their names change with the version. */
function scripts(page: Document): string {
  return [...page.querySelectorAll('script[src]')].map((one) => one.getAttribute('src')).join();
}
