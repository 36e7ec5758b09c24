// The console, from an item to a sale that sells out while somebody watches.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { newAdmin, signUp, Stranger, type Account } from './support/merchant';
import { png } from './support/picture';
import { test } from './support/test';

async function fillSignIn(page: Page, account: Account): Promise<void> {
  await page.getByLabel('Phone number').fill(account.phone);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
}

/** The distance of each row of tiles from the right edge. */
const holes = (page: Page) =>
  page.locator('.tiles').evaluate((tiles) => {
    const rows = new Map<number, number>();
    for (const tile of tiles.children) {
      const { top, right } = tile.getBoundingClientRect();
      rows.set(Math.round(top), Math.max(rows.get(Math.round(top)) ?? 0, right));
    }
    return [...rows.values()].map((right) => Math.round(tiles.getBoundingClientRect().right - right));
  });

const confirm = (page: Page, action: string) =>
  page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();

test('a sale goes from draft to sold out, and the live view moves with it', async ({
  visit,
  server,
  merchant,
}) => {
  const { page } = await visit({ reducedMotion: 'no-preference' });
  await page.goto('/console');
  await fillSignIn(page, await newAdmin(server));
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();

  await page.getByRole('navigation').getByRole('link', { name: 'Items' }).click();
  await page.getByRole('link', { name: 'New item' }).first().click();
  await page.getByLabel('Title').fill('Lantern');
  await page.getByLabel('Description').fill('Burns for forty hours.');
  await page.getByLabel('Regular price').fill('299.00');
  await page.getByLabel('Currency').fill('CNY');
  await page
    .locator('input[type=file]')
    .setInputFiles({ name: 'lantern.png', mimeType: 'image/png', buffer: png(400, 300) });
  await page.getByText(/400 × 300 pixels/).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The item is created.').waitFor();

  await page.getByRole('link', { name: 'Draft a sale of it' }).first().click();
  await page.getByLabel('Price in the sale').fill('99.00');
  await page.getByLabel('Units').fill('40');
  await page.getByLabel('Limit per buyer').fill('1');
  await page.getByLabel(/^Time to pay/).fill('600');
  await page.getByRole('button', { name: 'Save the draft' }).click();

  await page.getByRole('heading', { level: 2, name: 'Before you publish' }).waitFor();
  await page.getByText('The item has a picture.').waitFor();
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByRole('dialog').getByText('40 units are on sale at once.').waitFor();
  await confirm(page, 'Publish');
  await page.getByText('Published.').waitFor();
  const sale = /\/console\/sales\/(\w+)/.exec(page.url())?.[1] ?? '';

  await page.getByRole('link', { name: 'Watch it live' }).click();
  await page.locator('canvas').first().waitFor();
  for (const width of [1600, 1280, 1024, 768, 412]) {
    await page.setViewportSize({ width, height: 900 });
    expect([...new Set(await holes(page))], `tiles at ${width} pixels`).toEqual([0]);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  const drawn = () =>
    page
      .locator('canvas')
      .evaluateAll((all) => all.map((canvas) => (canvas as HTMLCanvasElement).toDataURL()));
  const before = await drawn();
  const words = ['rush', '--url', server.url, '--sale', sale, '--buyers', '1500', '--rate', '100'];
  const rush = server.begin([...words, '--threads', '1', '--data', server.data, '--quiet', '--json']);
  try {
    // All checks run together: none has to wait until another one succeeds.
    const told = () => page.getByRole('main').innerText();
    await Promise.all([
      expect
        .poll(async () => (await drawn()).filter((picture, at) => picture !== before[at]).length)
        .toBe(before.length),
      // Charts also move with time alone, so they have to show the rush.
      expect.poll(told).toMatch(/Claims\s+[1-9]/),
      expect.poll(told).toMatch(/Sold out\s+[1-9]/),
      page.getByText('0 of 40').waitFor(),
      // The gate refuses these buyers, which differs from nobody coming.
      expect.poll(told).toMatch(/all claims were refused at once, before the ledger/),
    ]);
    const { code, stdout, stderr } = await rush.finished;
    expect(code, `${stdout}\n${stderr}`).toBe(0);
  } finally {
    rush.end();
  }
  expect((await merchant.stats(sale)).available).toBe(0);
});

test('the live view counts who waits, and tells how long claims take', async ({
  visitAsAdmin,
  merchant,
  server,
}) => {
  const room = await merchant.publish({ opensInSeconds: 3600, waitingRoom: true });
  const open = await merchant.publish({ units: 1000 });
  const { page } = await visitAsAdmin();
  await page.goto(`/console/sales/${room.id}/live`);
  const told = () => page.getByRole('main').innerText();
  await expect.poll(told).toMatch(/Waiting\s+0\s/);
  await Promise.all([1, 2, 3].map(() => new Stranger(server).ticket(room.id)));
  await expect.poll(told).toMatch(/Waiting\s+3\s/);
  // Only claims of the last second are measured.
  await expect
    .poll(async () => {
      await new Stranger(server).order(open.id);
      return told();
    })
    .toMatch(/99 % within\s+[\d.,]+ ms/);
  await page
    .getByRole('region', { name: 'Nodes' })
    .getByRole('row', { name: /^This node Ready \d/ })
    .waitFor();
});

test('a file that is not a picture, or is too large, gets a reason before anything is sent', async ({
  visitAsAdmin,
}) => {
  const visitor = await visitAsAdmin();
  const { page } = visitor;
  await page.goto('/console/items/new');
  const file = page.locator('input[type=file]');
  await file.setInputFiles({
    name: 'virus.png',
    mimeType: 'image/png',
    buffer: Buffer.from('<svg onload=…>'),
  });
  await page
    .getByRole('alert')
    .getByText(/This is not a PNG, JPEG, WebP, AVIF or GIF/)
    .waitFor();
  const noise = Buffer.concat([png(10, 10), Buffer.alloc(1024 * 1024)]);
  await file.setInputFiles({ name: 'large.png', mimeType: 'image/png', buffer: noise });
  await page
    .getByRole('alert')
    .getByText(/more than 1 MiB/)
    .waitFor();
  expect(visitor.sent('POST', /\/admin\/pictures$/)).toEqual([]);
});

test('an error is shown at its field, and typed text is kept', async ({ visitAsAdmin, merchant }) => {
  const item = await merchant.item('Lamp');
  const { page } = await visitAsAdmin();
  await page.goto(`/console/sales/new?item=${item.id}`);
  await page.getByLabel('Price in the sale').fill('12');
  await page.getByLabel('Units').fill('none');
  await page.getByRole('button', { name: 'Save the draft' }).click();
  await page.getByText('A whole number from 1 to 100,000,000.').waitFor();
  expect(await page.getByLabel('Units').inputValue()).toBe('none');
  await expect
    .poll(() => page.getByLabel('Units').evaluate((field) => field === document.activeElement))
    .toBe(true);
  // The draft is still there after a look at another page.
  await page.getByRole('navigation').getByRole('link', { name: 'Items' }).click();
  await page.getByRole('heading', { level: 1, name: 'Items' }).waitFor();
  await page.goBack();
  await expect.poll(() => page.getByLabel('Price in the sale').inputValue()).toBe('12');
});

test('a confirmation states the consequences in figures', async ({ visitAsAdmin, server, merchant }) => {
  const sale = await merchant.publish({ units: 5 });
  await new Stranger(server).order(sale.id);
  const { page } = await visitAsAdmin();
  await page.goto(`/console/sales/${sale.id}`);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog').getByText('Nobody can order until you resume it.').waitFor();
  await confirm(page, 'Pause the sale');
  await page.getByText('Paused: new orders are refused.').waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await confirm(page, 'Resume the sale');
  await page.getByText('Resumed.').waitFor();
  await page.getByRole('button', { name: 'Restock' }).click();
  await page.getByLabel('Units to add').fill('7');
  await page.getByRole('dialog').getByText('7 units more, 12 in total.').waitFor();
  await confirm(page, 'Add the units');
  await page.getByText('Restocked.').waitFor();
  await page.getByRole('button', { name: 'Close the sale' }).click();
  await page.getByRole('dialog').getByText('1 unit that is held can still be paid.').waitFor();
  await page.getByRole('dialog').getByText('11 units stay unsold.').waitFor();
  // Neither button's label could refer to the dialog alone.
  await confirm(page, 'Keep the sale');
  expect((await merchant.sale(sale.id)).state).toBe('open');
  await page.getByRole('button', { name: 'Close the sale' }).click();
  await page.getByRole('dialog').getByText('11 units stay unsold.').waitFor();
  await confirm(page, 'Close the sale');
  await page.getByText('Closed.', { exact: true }).waitFor();
  expect((await merchant.stats(sale.id)).total).toBe(12);
});

test('a user without the admin role is told so, and sees nothing', async ({ visit, server }) => {
  const visitor = await visit();
  await visitor.signIn(await signUp(server));
  const { page } = visitor;
  await page.goto('/console/orders');
  await page.getByText(/this account has no admin role/).waitFor();
  expect(await page.getByRole('table').count()).toBe(0);
});
