// The size of a first visit, and where its files come from.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { test } from './support/test';

/** Compressed, headers included; without the API's answers and the items' pictures. */
const SHOP_LIMIT_BYTES = 50_000;
const SIGNED_IN_LIMIT_BYTES = 60_000;

/** Opens a page and counts the bytes until the network is quiet. */
async function load(page: Page, path: string): Promise<{ path: string; bytes: number }[]> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Network.enable');
  const paths = new Map<string, string>();
  const loaded: { path: string; bytes: number }[] = [];
  devtools.on('Network.responseReceived', ({ requestId, response }) => {
    paths.set(requestId, new URL(response.url).pathname);
  });
  devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    loaded.push({ path: paths.get(requestId) ?? '', bytes: encodedDataLength });
  });
  await page.goto(path, { waitUntil: 'networkidle' });
  return loaded.filter((one) => !/^\/(api|pictures)\//.test(one.path));
}

/** The bytes of a first visit to a page. */
async function cost(page: Page, path: string): Promise<number> {
  const loaded = await load(page, path);
  expect(loaded.map((one) => one.path)).toContain(path);
  expect(loaded.some((one) => one.path.endsWith('.js'))).toBe(true);
  return loaded.reduce((sum, one) => sum + one.bytes, 0);
}

test.for(['en-GB', 'zh-CN'])(
  'the shop’s first load is under 50 KB in %s, and under 60 KB for a signed-in buyer',
  async (locale, { visit, visitAsBuyer, merchant }) => {
    const sale = `/sales/${(await merchant.publish()).id}`;
    const list = await cost((await visit({ locale })).page, '/');
    const page = await cost((await visit({ locale })).page, sale);
    const signedIn = await cost((await visitAsBuyer({ locale })).page, sale);
    console.info(`First load in ${locale}: list ${list}, sale ${page}, signed in ${signedIn} bytes`);
    expect(list).toBeLessThan(SHOP_LIMIT_BYTES);
    expect(page).toBeLessThan(SHOP_LIMIT_BYTES);
    // The code for buying comes on top.
    expect(signedIn).toBeGreaterThan(page);
    expect(signedIn).toBeLessThan(SIGNED_IN_LIMIT_BYTES);
  },
);

test('everybody gets the same page, and a second visit downloads nothing again', async ({
  visit,
  server,
  merchant,
}) => {
  const sale = await merchant.publish();
  const first = await fetch(`${server.url}/sales/${sale.id}`);
  const tag = first.headers.get('etag') ?? '';
  expect(first.headers.get('cache-control')).toContain('public');
  const again = await fetch(`${server.url}/sales/${sale.id}`, {
    headers: { 'If-None-Match': tag, Cookie: 'penstock_session=somebody' },
  });
  expect(again.status).toBe(304);

  const { page } = await visit();
  await page.goto(`/sales/${sale.id}`, { waitUntil: 'networkidle' });
  const assets = await load(page, `/sales/${sale.id}`);
  const fromTheLine = assets.filter((one) => one.path.startsWith('/assets/') && one.bytes > 0);
  expect(fromTheLine).toEqual([]);
});

test('the pages allow nothing inline and no other host', async ({ server }) => {
  for (const path of ['/', '/console']) {
    const policy = (await fetch(`${server.url}${path}`)).headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).not.toContain('unsafe');
    expect(policy).toContain("frame-ancestors 'none'");
  }
});
