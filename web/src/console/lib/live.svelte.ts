// The server's live figures, one event a second. Says when it is cut off, and reconnects by itself.
import type { LiveFigures } from '../../api/schema';
import { session, whoAmI } from '../../lib/session.svelte';

/** After this much silence the stream counts as broken, even if the browser has not noticed. */
const SILENT_AFTER_MS = 5000;
const RECONNECT_MS = [1000, 2000, 4000, 8000];

export type Connection = 'connecting' | 'live' | 'cut_off';

/**
 * For use in a component: the figures of one sale, of all that are not over (undefined), or nothing yet
 * (null). `ontold` gets each event. Nothing is requested while nobody is signed in. Without `ontold`, the
 * stream is closed while the page is hidden: a browser has only a few connections for all its tabs.
 */
export function live(sale: () => string | undefined | null, ontold?: (figures: LiveFigures) => void) {
  let figures = $state.raw<LiveFigures>();
  let connection = $state<Connection>('connecting');

  const isOut = $derived(session.me === null);

  $effect(() => {
    const id = sale();
    if (id === null || isOut) return;
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let isOver = false;

    function connect(): void {
      source?.close();
      source = new EventSource(`/api/v1/admin/live${id ? `?sale=${encodeURIComponent(id)}` : ''}`);
      source.addEventListener('figures', (event: MessageEvent<string>) => {
        failures = 0;
        connection = 'live';
        figures = JSON.parse(event.data) as LiveFigures;
        ontold?.(figures);
        expect();
      });
      source.addEventListener('error', lost);
      expect();
    }
    function expect(): void {
      clearTimeout(timer);
      timer = setTimeout(lost, SILENT_AFTER_MS);
    }
    // A browser gives up for good on an answer that is not a stream, such as 503, so we reconnect ourselves.
    function lost(): void {
      if (isOver) return;
      source?.close();
      clearTimeout(timer);
      connection = failures === 0 && connection === 'connecting' ? 'connecting' : 'cut_off';
      const wait = RECONNECT_MS[Math.min(failures, RECONNECT_MS.length - 1)] ?? 1000;
      failures += 1;
      // A stream does not say why it was refused. Perhaps the session is over.
      if (failures === 2) void whoAmI();
      timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
    }

    function look(): void {
      if (document.visibilityState === 'visible') return connect();
      clearTimeout(timer);
      source?.close();
    }

    connect();
    if (!ontold) document.addEventListener('visibilitychange', look);
    return () => {
      isOver = true;
      document.removeEventListener('visibilitychange', look);
      clearTimeout(timer);
      source?.close();
    };
  });

  return {
    get figures() {
      return figures;
    },
    get connection() {
      return connection;
    },
  };
}
