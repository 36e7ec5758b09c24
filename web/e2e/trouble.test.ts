// Reloads, double clicks, lost networks, second tabs: one wish is one order, and the page finds it again.
import { expect } from 'vitest';
import { signUp } from './support/merchant';
import { keepBack } from './support/network';
import { shop } from './support/shop';
import { test } from './support/test';
import type { Visitor } from './support/visitor';

const ORDERS = /\/api\/v1\/sales\/[^/]+\/orders$/;
const PAY = /\/api\/v1\/orders\/[^/]+\/pay$/;

/** Every key that was sent with an order. */
async function keys(visitor: Visitor): Promise<Set<string | null>> {
  const sent = visitor.sent('POST', ORDERS);
  return new Set(await Promise.all(sent.map((request) => request.headerValue('idempotency-key'))));
}

test('a double click is one request', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ limit: 5 });
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  const network = await keepBack(page, 'POST', ORDERS);
  await shop(page).open(sale);
  await shop(page).buy.dblclick();
  await network.first;
  await network.letGo();
  await shop(page).hold.waitFor();
  expect(visitor.sent('POST', ORDERS)).toHaveLength(1);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a reload during a purchase goes on with it', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ limit: 5 });
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  const network = await keepBack(page, 'POST', ORDERS);
  await shop(page).open(sale);
  await shop(page).buy.click();
  await network.first;
  await page.reload();
  await network.letGo();
  await shop(page).hold.waitFor();
  expect((await keys(visitor)).size).toBe(1);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a lost answer is requested again, and is the same', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ limit: 5 });
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/orders \(net::ERR_FAILED\)/, /ERR_FAILED/);
  const { page } = visitor;
  let lost = 0;
  await page.route(ORDERS, async (route) => {
    if (lost > 1 || route.request().method() !== 'POST') return route.continue();
    lost += 1;
    // The server has accepted it, but the answer is lost.
    await route.fetch();
    await route.abort('failed');
  });
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  expect(lost).toBe(2);
  expect((await keys(visitor)).size).toBe(1);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a purchase waits for a lost network', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/ERR_INTERNET_DISCONNECTED/);
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.waitFor();
  await visitor.context.setOffline(true);
  await shop(page).buy.click();
  await page.getByText(/No connection/).waitFor();
  await visitor.context.setOffline(false);
  await shop(page).hold.waitFor();
  expect((await keys(visitor)).size).toBe(1);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a payment waits for a lost network, too', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/ERR_INTERNET_DISCONNECTED/);
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await visitor.context.setOffline(true);
  await shop(page).pay.click();
  await page.getByText(/No connection/).waitFor();
  await visitor.context.setOffline(false);
  await shop(page).paid.waitFor();
  expect((await merchant.stats(sale.id)).paid).toBe(1);
});

test('a reload during a payment goes on with it, and nothing is paid twice', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/pay \(net::ERR_FAILED\)/, /ERR_FAILED/);
  const { page } = visitor;
  let isLost = true;
  // Nothing arrives until the page has been reloaded.
  await page.route(PAY, (route) => (isLost ? route.abort('failed') : route.continue()));
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).pay.click();
  await page.getByText('Still trying').first().waitFor();
  isLost = false;
  await page.goto('/orders');
  await page.getByText('Paid', { exact: true }).first().waitFor();
  expect((await merchant.stats(sale.id)).paid).toBe(1);
  const sent = visitor.sent('POST', PAY).length;
  await page.reload();
  await page.getByText('Paid', { exact: true }).first().waitFor();
  expect(visitor.sent('POST', PAY)).toHaveLength(sent);
});

test('a shop that is too busy for a moment is asked again', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/orders was answered 503/);
  const { page } = visitor;
  let refused = 0;
  await page.route(ORDERS, async (route) => {
    if (refused > 0 || route.request().method() !== 'POST') return route.continue();
    refused += 1;
    await route.fulfill({
      status: 503,
      headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
      body: JSON.stringify({ type: '/errors/busy', title: 'Busy', status: 503, code: 'busy', detail: '' }),
    });
  });
  await shop(page).open(sale);
  await shop(page).buy.click();
  await page.getByText('Still trying').first().waitFor();
  await shop(page).hold.waitFor();
  expect((await keys(visitor)).size).toBe(1);
});

test('two tabs have one order, and both show it', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ limit: 5 });
  const visitor = await visitAsBuyer();
  const one = visitor.page;
  const other = await visitor.anotherTab();
  const network = await keepBack(one, 'POST', ORDERS);
  await shop(one).open(sale);
  await shop(other).open(sale);
  await shop(other).buy.waitFor();
  await shop(one).buy.click();
  await network.first;
  await shop(other).buy.click();
  await network.letGo();
  await shop(one).hold.waitFor();
  await shop(other).hold.waitFor();
  expect((await keys(visitor)).size).toBe(1);
  expect((await merchant.stats(sale.id)).held).toBe(1);

  await shop(one).pay.click();
  await shop(one).paid.waitFor();
  await shop(other).paid.waitFor();
});

test('a place in the waiting room survives a reload and a second tab', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ opensInSeconds: 3600, waitingRoom: true });
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).joinRoom.click();
  await shop(page).waitingRoom.waitFor();
  await page.reload();
  await shop(page).waitingRoom.waitFor();
  const other = await visitor.anotherTab();
  await shop(other).open(sale);
  await shop(other).waitingRoom.waitFor();
  expect(visitor.sent('POST', /\/tickets$/)).toHaveLength(1);
});

test('without a stream, the page polls its place in the waiting room', async ({ visitAsBuyer, merchant }) => {
  const visitor = await visitAsBuyer();
  const sale = await merchant.publish({ opensInSeconds: 12, waitingRoom: true });
  visitor.expectTrouble(/events \(net::ERR_FAILED\)/);
  const { page } = visitor;
  await page.route(/\/tickets\/[^/]+\/events$/, (route) => route.abort('failed'));
  await shop(page).open(sale);
  await shop(page).joinRoom.click();
  await shop(page).waitingRoom.waitFor();
  await shop(page).hold.waitFor();
});

test('the hold is found again by the back button, after closing the page, and in another browser', async ({
  visit,
  merchant,
  server,
}) => {
  const sale = await merchant.publish();
  const account = await signUp(server);
  const visitor = await visit();
  await visitor.signIn(account);
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await page.getByRole('link', { name: 'My orders' }).first().click();
  await page.getByRole('heading', { level: 1, name: 'My orders' }).waitFor();
  await page.goBack();
  await shop(page).hold.waitFor();
  await page.close();
  const again = await visitor.anotherTab();
  await shop(again).open(sale);
  await shop(again).hold.waitFor();

  const elsewhere = await visit();
  await elsewhere.signIn(account);
  await shop(elsewhere.page).open(sale);
  await shop(elsewhere.page).hold.waitFor();
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a session that ran out during a purchase is renewed, and the purchase goes on', async ({
  visit,
  merchant,
  server,
}) => {
  const sale = await merchant.publish();
  const account = await signUp(server);
  const visitor = await visit();
  await visitor.signIn(account);
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.waitFor();
  await visitor.context.clearCookies();
  await shop(page).buy.click();
  await page
    .getByRole('main')
    .getByRole('link', { name: /^Sign in/ })
    .first()
    .click();
  await page.getByLabel('Phone number').fill(account.phone);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await shop(page).hold.waitFor();
  expect((await merchant.stats(sale.id)).held).toBe(1);
});
