// The page's address as state. Links are ordinary links: `follow` makes those of this page cheap.
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
  /** Path and query: the whole of what is to be returned to. */
  get address() {
    return place.path + place.query;
  },
};

/** The state that the browser keeps with an entry of its history. */
interface Entry {
  /** The address of the entry before, if that is a page of ours. */
  from?: string;
}

/** `stay`: it is the same page, such as with another filter; the focus stays where it is. */
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

/** People who use a screen reader or the keyboard start at the beginning of the new page. */
function begin(): void {
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

/** Leaves a page that nobody comes back to, without a second entry for the page that the visitor came from. */
export function leaveFor(to: string): void {
  if ((history.state as Entry | null)?.from !== to) return go(to, 'replace');
  addEventListener('popstate', begin, { once: true });
  history.back();
}

/** The parameters of `pattern`, such as `/sales/:id`, if it is the present address. */
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

/** An address that somebody damaged is still one that can be told to be unknown. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A path of this site to return to. Anything else, such as another site's address, becomes `otherwise`. */
export function safePath(wanted: string | null, otherwise = '/'): string {
  // Browsers read a backslash as a slash, and drop tabs and line breaks.
  if (!wanted || !/^\/(?![/\\])[^\\\s]*$/.test(wanted)) return otherwise;
  const url = new URL(wanted, location.origin);
  // What `..` leaves over may begin with two slashes, which is another site again.
  const isOurs = url.origin === location.origin && !url.pathname.startsWith('//');
  return isOurs ? url.pathname + url.search : otherwise;
}

/** For the click of an element that holds links: stays on this page where that is possible. */
export function follow(prefixes: readonly string[]): (event: MouseEvent) => void {
  return (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    // A place of this page is no other page.
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
