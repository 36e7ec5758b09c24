// Messages between tabs of the same browser, so that none shows outdated data.

export type News = { about: 'session' } | { about: 'order'; sale: string; order: string };

/** One for the whole page, because a channel does not hear itself. */
const channel = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel('penstock');

export function tellTabs(news: News): void {
  channel?.postMessage(news);
}

/** Listens until the returned function is called. */
export function hearTabs(hear: (news: News) => void): () => void {
  const heard = ({ data }: MessageEvent<News>) => hear(data);
  channel?.addEventListener('message', heard);
  return () => channel?.removeEventListener('message', heard);
}
