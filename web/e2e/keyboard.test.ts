// The keyboard alone is enough.
import { expect } from 'vitest';
import { newAdmin, signUp } from './support/merchant';
import { pressOn, tabTo } from './support/keyboard';
import { shop } from './support/shop';
import { test } from './support/test';

test('somebody with a keyboard alone signs in, buys and pays', async ({ visit, merchant, server }) => {
  const account = await signUp(server);
  const sale = await merchant.publish({ title: 'Kettle K', challenge: 'pow' });
  const { page } = await visit();
  await page.goto('/');
  await pressOn(page, page.getByRole('link', { name: /Kettle K/ }));
  await page.getByRole('heading', { level: 1, name: 'Kettle K' }).waitFor();
  await pressOn(page, page.getByRole('main').getByRole('link', { name: /^Sign in/ }));
  await tabTo(page, page.getByLabel('Phone number'));
  await page.keyboard.type(account.phone);
  await tabTo(page, page.getByLabel('Password'));
  await page.keyboard.type(account.password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Kettle K' }).waitFor();
  await pressOn(page, shop(page).buy, 'Space');
  await shop(page).hold.waitFor();
  await pressOn(page, shop(page).pay);
  await shop(page).paid.waitFor();
  expect((await merchant.stats(sale.id)).paid).toBe(1);
});

test('a question is asked in a dialog that holds the focus, and Escape leaves it', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish();
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  const cancel = page.getByRole('button', { name: 'Cancel order' });
  await pressOn(page, cancel);
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  const inside = () => dialog.evaluate((element) => element.contains(document.activeElement));
  expect(await inside()).toBe(true);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => cancel.evaluate((element) => element === document.activeElement)).toBe(true);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('the first stop of every page leads past its navigation', async ({ visit, server }) => {
  const visitor = await visit();
  await visitor.signIn(await newAdmin(server));
  const { page } = visitor;
  for (const path of ['/', '/console']) {
    await page.goto(path);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Tab');
    const first = await page.evaluate(() => document.activeElement?.textContent?.trim());
    expect(first, path).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true);
  }
});
