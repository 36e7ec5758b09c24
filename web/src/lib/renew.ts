// A page that was opened before a new version may request a file that is gone. Then it reloads, at the same
// address. It does not reload if the network is down: that would lose typed text and help nobody.
addEventListener('vite:preloadError', () => void renew());

/** Reloads if the server has another version of this page. */
export async function renew(): Promise<void> {
  const newest = await fetch(location.pathname, { cache: 'no-cache', headers: { Accept: 'text/html' } })
    .then((answer) => (answer.ok ? answer.text() : undefined))
    .catch(() => undefined);
  if (newest === undefined) return;
  const page = new DOMParser().parseFromString(newest, 'text/html');
  if (scripts(page) !== scripts(document)) location.reload();
}

/** The names of scripts change with the version. */
function scripts(page: Document): string {
  return [...page.querySelectorAll('script[src]')].map((one) => one.getAttribute('src')).join();
}
