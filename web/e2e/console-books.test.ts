// What the console shows afterwards: orders, the audit, dead letters, and the report of a rehearsal.
import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { signUp, Stranger } from './support/merchant';
import { shop } from './support/shop';
import { test } from './support/test';

test('an order is found by its buyer’s phone, and what is found can be exported', async ({
  visit,
  visitAsAdmin,
  server,
  merchant,
}) => {
  const sale = await merchant.publish({ title: 'Lantern', units: 5 });
  const account = await signUp(server);
  const buyer = await visit();
  await buyer.signIn(account);
  await shop(buyer.page).open(sale);
  await shop(buyer.page).buy.click();
  await shop(buyer.page).pay.click();
  await shop(buyer.page).paid.waitFor();
  const stranger = new Stranger(server);
  const other = await stranger.order(sale.id);

  const visitor = await visitAsAdmin();
  const { page } = visitor;
  await page.goto('/console/orders');
  const rows = page.getByRole('row');
  // Orders are settled a moment after they are accepted.
  await expect
    .poll(async () => {
      await page.reload();
      await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor();
      await page
        .getByRole('status')
        .getByText(/shown|no orders/)
        .waitFor();
      return rows.count();
    })
    .toBe(3);
  await page.getByLabel('Order, buyer or phone').fill(account.phone);
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('1 order shown').waitFor();
  expect(await page.getByRole('table').innerText()).not.toContain(other.id);

  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Export as CSV' }).click();
  const file = await (await download).path();
  const lines = (await readFile(file, 'utf8')).trim().split(/\r?\n/);
  expect(lines).toHaveLength(2);
  expect(lines[1]).toContain('Lantern');

  await page.getByLabel('Order, buyer or phone').fill(stranger.buyer);
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText(other.id).waitFor();
});

test('the audit says in words that everything adds up', async ({ visitAsAdmin, server, merchant }) => {
  const sale = await merchant.publish({ units: 2 });
  await new Stranger(server).order(sale.id);
  const visitor = await visitAsAdmin();
  const { page } = visitor;
  await page.goto('/console/audit');
  await page.getByRole('button', { name: 'Run the audit' }).click();
  await page.getByText('Everything adds up.').waitFor();
  await page.goto('/console/dead-letters');
  await page.getByText('There are none: everything that was decided is settled.').waitFor();
});

test('the report of a rehearsal is drawn, and a file that is not a report is refused', async ({
  visitAsAdmin,
  server,
}) => {
  const words = ['rush', '--url', server.url, '--buyers', '60', '--units', '20', '--opens-in', '1'];
  const rush = await server.run([...words, '--threads', '1', '--data', server.data, '--quiet', '--json']);
  expect(rush.code, rush.stderr).toBe(0);
  const visitor = await visitAsAdmin();
  const { page } = visitor;
  await page.goto('/console/rehearse');
  await page
    .getByText(/penstock rush --url/)
    .first()
    .waitFor();
  const file = page.locator('input[type=file]');
  const report = (text: string) => ({
    name: 'rehearsal.json',
    mimeType: 'application/json',
    buffer: Buffer.from(text),
  });
  await file.setInputFiles(report('<html>'));
  await page.getByRole('alert').waitFor();
  await file.setInputFiles(report('{"something":"else"}'));
  await page
    .getByRole('alert')
    .getByText(/not the report of a rehearsal/)
    .waitFor();
  const sent = visitor.requests.length;
  await file.setInputFiles(report(rush.stdout));
  await page.getByText('Every promise was kept.').first().waitFor();
  await page.locator('canvas').first().waitFor();
  // The browser reads it and sends it nowhere.
  expect(visitor.requests.slice(sent).filter((request) => request.method() !== 'GET')).toEqual([]);
});
