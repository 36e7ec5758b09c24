// The keyboard alone is enough.
import { expect } from 'vitest';
import { signUp } from './support/merchant';
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
  // The button is gone, and the next tab stop is close to it, not at the start of the page.
  const isNear = () => page.evaluate(() => document.activeElement?.closest('section.panel') !== null);
  await expect.poll(isNear).toBe(true);
  await page.keyboard.press('Tab');
  expect(await isNear()).toBe(true);
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

test('a merchant with a keyboard alone drafts a sale, publishes and pauses it', async ({
  visitAsAdmin,
  merchant,
}) => {
  const item = await merchant.item('Zither Z');
  const { page } = await visitAsAdmin();
  const { keyboard } = page;
  const main = page.getByRole('main');
  await page.goto('/console');
  await pressOn(page, page.getByRole('navigation').getByRole('link', { name: 'Sales' }));
  await pressOn(page, main.getByRole('link', { name: 'New sale' }));
  const choice = page.getByLabel('Item', { exact: true });
  await tabTo(page, choice);
  // A letter typed on a list chooses the entry that begins with it.
  await keyboard.press('z');
  await expect.poll(() => choice.inputValue()).toBe(item.id);
  for (const [label, text] of [
    ['Price in the sale', '1999.00'],
    ['Units', '7'],
    ['Limit per buyer', '2'],
  ] as const) {
    await tabTo(page, page.getByLabel(label));
    await keyboard.press('Control+A');
    await keyboard.type(text);
  }
  const challenge = page.getByLabel('Challenge');
  await tabTo(page, challenge);
  await keyboard.press('ArrowDown');
  await expect.poll(() => challenge.inputValue()).toBe('pow');
  await pressOn(page, page.getByRole('checkbox', { name: 'Waiting room' }), 'Space');
  await pressOn(page, main.getByRole('button', { name: 'Save the draft' }));

  const answer = async (action: string) => {
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await pressOn(page, dialog.getByRole('button', { name: action, exact: true }));
  };
  await pressOn(page, main.getByRole('button', { name: 'Publish' }));
  await answer('Publish');
  await page.getByText('Published.').waitFor();
  const sale = await merchant.sale(/\/console\/sales\/(\w+)/.exec(page.url())?.[1] ?? '');
  expect(sale).toMatchObject({ state: 'open', stock: { total: 7 }, limit_per_buyer: 2 });
  expect(sale.gate).toMatchObject({ challenge: 'pow', waiting_room: true });
  await pressOn(page, main.getByRole('button', { name: 'Pause' }), 'Space');
  await answer('Pause the sale');
  await page.getByText('Paused: new orders are refused.').waitFor();
  expect((await merchant.sale(sale.id)).state).toBe('paused');
  // The focus is on the next control.
  const resume = main.getByRole('button', { name: 'Resume' });
  await expect.poll(() => resume.evaluate((element) => element === document.activeElement)).toBe(true);
});

test('the first stop of every page leads past its navigation', async ({ visitAsAdmin }) => {
  const { page } = await visitAsAdmin();
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
