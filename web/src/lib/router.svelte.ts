// The page's address as state. Links are ordinary links: `follow` makes those within this page quick.
const place = $state({ path: location.pathname, query: location.search });

addEventListener('popstate', read);

function read(): void {
  place.path = location.pathname;
  place.query = location.search;
}

export const route = {
  get path() {
    return place.path;
  },
  get query() {
    return new URLSearchParams(place.query);
  },
  /** Path and query: the whole address to return to. */
  get address() {
    return place.path + place.query;
  },
};

/** The state that the browser keeps with a history entry. */
interface Entry {
  /** The address of the entry before, if it is one of our pages. */
  from?: string;
}

/** `stay`: the same page, for example with another filter; the focus stays where it is. */
export function go(to: string, how: 'push' | 'replace' | 'stay' = 'push'): void {
  if (how === 'push')
    history.pushState({ from: location.pathname + location.search } satisfies Entry, '', to);
  // The entry before stays the same.
  else history.replaceState(history.state, '', to);
  read();
  if (how === 'stay') return;
  scrollTo(0, 0);
  begin();
}

/** Screen readers and the keyboard start at the top of the new page. */
function begin(): void {
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

/** Leaves a page that nobody returns to, without a second entry for the page that the visitor came from. */
export function leaveFor(to: string): void {
  if ((history.state as Entry | null)?.from !== to) return go(to, 'replace');
  addEventListener('popstate', begin, { once: true });
  history.back();
}

/** The parameters of `pattern`, such as `/sales/:id`, if the current address matches. */
export function match(pattern: string, path = place.path): Record<string, string> | undefined {
  const wanted = pattern.split('/');
  const parts = path.replace(/(.)\/$/, '$1').split('/');
  if (wanted.length !== parts.length) return undefined;
  const found: Record<string, string> = {};
  for (const [at, name] of wanted.entries()) {
    const part = parts[at] ?? '';
    if (name.startsWith(':')) found[name.slice(1)] = decoded(part);
    else if (name !== part) return undefined;
  }
  return found;
}

/** A damaged address must still lead to the "not found" page. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A path of this site to return to. Anything else, such as an address of another site, becomes `otherwise`.
 */
export function safePath(wanted: string | null, otherwise = '/'): string {
  // Browsers read a backslash as a slash, and drop tabs and line breaks.
  if (!wanted || !/^\/(?![/\\])[^\\\s]*$/.test(wanted)) return otherwise;
  const url = new URL(wanted, location.origin);
  // After resolving `..`, the path may begin with two slashes, which is another site again.
  const isOurs = url.origin === location.origin && !url.pathname.startsWith('//');
  return isOurs ? url.pathname + url.search : otherwise;
}

/** The click handler of an element with links: stays on this page if possible. */
export function follow(prefixes: readonly string[]): (event: MouseEvent) => void {
  return (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    // A fragment of this page is not another page.
    if (link.hash && link.pathname === location.pathname && link.search === location.search) {
      event.preventDefault();
      document.getElementById(link.hash.slice(1))?.focus();
      return;
    }
    if (!prefixes.some((prefix) => link.pathname === prefix || link.pathname.startsWith(`${prefix}/`)))
      return;
    event.preventDefault();
    go(link.pathname + link.search, 'replaces' in link.dataset ? 'replace' : 'push');
  };
}
