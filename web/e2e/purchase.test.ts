// A complete purchase, as different people make it.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { newPhone, Stranger } from './support/merchant';
import { shop } from './support/shop';
import { test } from './support/test';

// An unused turn soon goes to the next person.
test.override({ serverOptions: { settings: { PENSTOCK_GATE__TURN_SECONDS: 8 } } });

test('somebody new signs up, waits for the turn, passes the check, buys and pays', async ({
  visit,
  merchant,
  server,
}) => {
  const sale = await merchant.publish({
    title: 'Headphones Q',
    units: 1,
    challenge: 'pow',
    waitingRoom: true,
  });

  const visitor = await visit();
  const { page } = visitor;
  await page.goto('/');
  await page
    .getByRole('link', { name: /Headphones Q/ })
    .first()
    .click();
  await page.getByRole('heading', { level: 1, name: 'Headphones Q' }).waitFor();
  await page
    .getByRole('main')
    .getByRole('link', { name: /^Sign in/ })
    .first()
    .click();
  await page.getByRole('main').getByRole('link', { name: 'Create account' }).click();
  // The page before this one has a field for the phone, too.
  await page.getByRole('heading', { level: 1, name: 'Create account' }).waitFor();

  await page.getByLabel('Phone number').fill(newPhone());
  await page.getByRole('button', { name: 'Send code' }).click();
  // A demo fills in the code itself.
  await expect.poll(() => page.getByLabel('One-time code').inputValue()).toMatch(/^\d{6}$/);
  await page.getByLabel('Name').fill('Ada');
  await page.getByLabel('Password').fill('correct-horse-battery');
  await page.getByRole('button', { name: 'Create account' }).click();

  // Somebody else is first, and does not use the turn.
  const first = new Stranger(server);
  const { ticket } = await first.ticket(sale.id);
  await expect.poll(async () => (await first.lookAt(sale.id, ticket)).state).toBe('admitted');

  // After signing in, the page returns to the sale by itself.
  await page.getByRole('heading', { level: 1, name: 'Headphones Q' }).waitFor();
  await shop(page).buy.click();
  await shop(page).waitingRoom.waitFor();
  await page.getByText('You are next', { exact: true }).waitFor();
  // The device passes the check that follows.
  await shop(page).hold.waitFor();
  expect(visitor.sent('POST', /\/challenge$/)).toHaveLength(1);
  await shop(page).pay.click();
  await shop(page).paid.waitFor();

  await page.getByRole('link', { name: 'My orders' }).first().click();
  await page.getByRole('heading', { level: 1, name: 'My orders' }).waitFor();
  await page.getByText('Headphones Q').first().waitFor();
  await expect.poll(async () => (await merchant.stats(sale.id)).paid).toBe(1);
});

test('an early buyer takes part in the draw, and continues by itself at the opening', async ({
  visitAsBuyer,
  merchant,
}) => {
  const { page } = await visitAsBuyer();
  const sale = await merchant.publish({ units: 5, opensInSeconds: 12, challenge: 'pow', waitingRoom: true });
  await shop(page).open(sale);
  await shop(page).joinRoom.click();
  await page.getByText('Places are drawn at the opening').waitFor();
  await shop(page).hold.waitFor();
});

test('a sale opens on the page by itself', async ({ visitAsBuyer, merchant }) => {
  const { page } = await visitAsBuyer();
  const sale = await merchant.publish({ opensInSeconds: 12 });
  await shop(page).open(sale);
  await page.getByRole('timer').first().waitFor();
  expect(await page.getByRole('button', { name: 'Not open yet' }).isDisabled()).toBe(true);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
});

/** Sets the clock of the visitor's device, for all pages opened later. */
async function setClock(page: Page, aheadMinutes: number): Promise<void> {
  await page.addInitScript((aheadMs) => {
    const Right = Date;
    globalThis.Date = class extends Right {
      constructor(...parts: unknown[]) {
        super(...((parts.length === 0 ? [Right.now() + aheadMs] : parts) as [number]));
      }
      static override now(): number {
        return Right.now() + aheadMs;
      }
    } as DateConstructor;
  }, aheadMinutes * 60_000);
}

/** The minutes left on the page's countdown. */
async function minutesLeft(page: Page): Promise<number> {
  const parts = (await page.getByRole('timer').first().innerText()).split(':').map(Number);
  return parts.reduce((sum, part) => sum * 60 + part, 0) / 60;
}

test('on a device whose clock is an hour wrong, everything happens by the server’s', async ({
  visitAsBuyer,
  merchant,
}) => {
  const later = await merchant.publish({ opensInSeconds: 1800 });
  const visitors = await Promise.all([visitAsBuyer(), visitAsBuyer()]);
  const [fast, slow] = visitors.map(({ page }) => page) as [Page, Page];
  await setClock(fast, 60);
  await setClock(slow, -60);
  for (const page of [fast, slow]) {
    await shop(page).open(later);
    const wrongMs = Math.abs((await page.evaluate(() => Date.now())) - Date.now());
    expect(wrongMs).toBeGreaterThan(30 * 60_000);
    expect(await page.getByRole('button', { name: 'Not open yet' }).isDisabled()).toBe(true);
    expect(await minutesLeft(page)).toBeGreaterThan(25);
    expect(await minutesLeft(page)).toBeLessThanOrEqual(30);
  }
  const soon = await merchant.publish({ opensInSeconds: 6, closesInSeconds: 1800 });
  await Promise.all([fast, slow].map((page) => shop(page).open(soon)));
  for (const page of [fast, slow]) {
    await shop(page).buy.click();
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(soon.opens_at ?? ''));
    await shop(page).hold.waitFor();
    expect(await minutesLeft(page)).toBeGreaterThan(10);
    expect(await minutesLeft(page)).toBeLessThanOrEqual(15);
  }
});

test('a wrong captcha answer brings a new picture, and a visitor who can’t see it has another way', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish({ challenge: 'captcha' });
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.click();
  const picture = page.getByRole('img', { name: /Picture with five characters/ });
  await picture.waitFor();
  const before = await picture.getAttribute('src');
  await page.getByLabel('Characters').fill('?????');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('That was not right').waitFor();
  await expect.poll(() => picture.getAttribute('src')).not.toBe(before);
  const second = await picture.getAttribute('src');
  await page.getByRole('button', { name: 'Another picture' }).click();
  await expect.poll(() => picture.getAttribute('src')).not.toBe(second);
  await page.getByRole('button', { name: /let my device solve a puzzle/ }).click();
  await shop(page).hold.waitFor();
});

test('a cancelled order gives its unit back, and can be made again', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ units: 3 });
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await page.getByRole('button', { name: 'Cancel order' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the order' }).click();
  await shop(page).cancelled.waitFor();
  expect((await merchant.stats(sale.id)).available).toBe(3);
  await shop(page).buyAgain.click();
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('two units bought one after the other are two orders', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ units: 5, limit: 2 });
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).pay.click();
  await shop(page).paid.waitFor();
  await shop(page).buyAgain.click();
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await expect.poll(async () => (await merchant.stats(sale.id)).held).toBe(1);
  expect((await merchant.stats(sale.id)).paid).toBe(1);
});
