import { beforeEach, expect, test, vi } from 'vitest';
import { renew } from './renew';

const shell = (version: string) =>
  `<!doctype html><html><head><script type="module" src="/assets/${version}.js"></script></head></html>`;

const reload = vi.fn();

function serverSays(answer: () => Response | Promise<Response>): void {
  vi.stubGlobal(
    'fetch',
    vi.fn(async () => answer()),
  );
}

beforeEach(() => {
  reload.mockReset();
  vi.stubGlobal('location', { pathname: '/orders', reload });
  // As in the browser, but without loading the script.
  document.head.replaceChildren(new DOMParser().parseFromString(shell('old'), 'text/html').head.children[0]!);
});

test('an outdated page reloads', async () => {
  serverSays(() => new Response(shell('new')));
  await renew();
  expect(reload).toHaveBeenCalledOnce();
});

test('the newest page stays, so that it does not reload for ever', async () => {
  serverSays(() => new Response(shell('old')));
  await renew();
  expect(reload).not.toHaveBeenCalled();
});

test('a page stays as it is without network or server', async () => {
  serverSays(() => Promise.reject(new TypeError('no network')));
  await renew();
  serverSays(() => new Response('{"code":"unavailable"}', { status: 503 }));
  await renew();
  expect(reload).not.toHaveBeenCalled();
});
