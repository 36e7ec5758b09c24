// English and Chinese, chosen by the browser and by the visitor.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { newAdmin } from './support/merchant';
import { test } from './support/test';

const CHINESE = /\p{Script=Han}/u;

test('a browser that speaks Chinese gets Chinese, with its money and times', async ({ visit, merchant }) => {
  const sale = await merchant.publish({ title: 'Lamp', price: '1999.00' });
  const { page } = await visit({ locale: 'zh-CN' });
  await page.goto(`/sales/${sale.id}`);
  await page.getByRole('heading', { level: 1, name: 'Lamp' }).waitFor();
  expect(await page.locator('html').getAttribute('lang')).toBe('zh-CN');
  await page.getByText('¥1,999').first().waitFor();
  // Only what the merchant wrote, the brand and the other language's name are not Chinese.
  const words = (await page.locator('body').innerText())
    .replaceAll(/Lamp|Made for a test\.|Penstock|English|CNY/g, '')
    .match(/[A-Za-z]{2,}/g);
  expect(words ?? []).toEqual([]);
});

test('a browser that speaks neither gets English', async ({ visit }) => {
  const { page } = await visit({ locale: 'fr-FR' });
  await page.goto('/');
  await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
  expect(await page.locator('html').getAttribute('lang')).toBe('en');
});

test('the language can be changed, what was typed stays, and so does the choice', async ({ visit }) => {
  const { page } = await visit({ locale: 'zh-CN' });
  await page.goto('/sign-in');
  await page.getByLabel('手机号').fill('+8613900000000');
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  expect(await page.getByLabel('Phone number').inputValue()).toBe('+8613900000000');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await page.getByRole('button', { name: '中文' }).click();
  await expect.poll(() => page.getByRole('heading', { level: 1 }).innerText()).toMatch(CHINESE);
});

test('a refusal is said in Chinese too', async ({ visit }) => {
  const { page } = await visit({ locale: 'zh-CN' });
  await page.goto('/sign-in');
  await page.getByLabel('手机号').fill('+8613900000000');
  await page.getByLabel('密码').fill('not-the-password');
  await page.getByRole('main').getByRole('button', { name: '登录' }).click();
  await expect.poll(() => page.getByRole('alert').first().innerText()).toMatch(CHINESE);
  expect(await page.getByRole('alert').first().innerText()).not.toMatch(/[A-Za-z]{2,}/);
  expect(await page.getByLabel('手机号').inputValue()).toBe('+8613900000000');
});

/** Words of a page that are not Chinese, without what is a name, a number, a unit or a command. */
async function leftoverEnglish(page: Page): Promise<string[]> {
  const text = await page.evaluate(() => {
    const body = document.body.cloneNode(true) as HTMLElement;
    for (const part of body.querySelectorAll('code, pre, noscript, [lang=en], a[href^="/orders/"]'))
      part.remove();
    return body.textContent ?? '';
  });
  const known =
    /[0-9a-z]{13}(-\d+)?|Lamp \w+|Lamp|Made for a test\.|Penstock|penstock\S*|English|API|http|Ada|Grace|CNY|CSV|JSON|ID|MiB|KiB|PNG|JPEG|WebP|AVIF|GIF|https?:\S*|Asia\/Shanghai|GMT|PENSTOCK_\w+|rehearsal\.json|--\w+/g;
  return text.replaceAll(known, '').match(/[A-Za-z]{2,}/g) ?? [];
}

test('nothing of a purchase is left in English', async ({ visitAsBuyer, merchant }) => {
  const { page } = await visitAsBuyer({ locale: 'zh-CN' });
  const room = await merchant.publish({ title: 'Lamp', opensInSeconds: 3600, waitingRoom: true });
  await page.goto(`/sales/${room.id}`);
  await page
    .getByRole('button', { name: /排队|抽签/ })
    .first()
    .click();
  await page.getByText('名次将在开始时抽签决定').first().waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
  const sale = await merchant.publish({ title: 'Lamp' });
  await page.goto(`/sales/${sale.id}`);
  await page.getByRole('button', { name: /^立即/ }).click();
  await page.getByRole('button', { name: /^支付|^付款/ }).waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
  await page.getByRole('button', { name: /^支付|^付款/ }).click();
  await page.getByRole('button', { name: /^支付|^付款/ }).waitFor({ state: 'hidden' });
  expect(await leftoverEnglish(page)).toEqual([]);
  await page.goto('/orders');
  await page.getByText('Lamp').first().waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
});

test('the console speaks Chinese, and English when it is asked to', async ({ visit, server, merchant }) => {
  await merchant.publish();
  const visitor = await visit({ locale: 'zh-CN' });
  await visitor.signIn(await newAdmin(server));
  const { page } = visitor;
  for (const path of ['', '/items', '/sales', '/orders', '/dead-letters', '/audit', '/rehearse']) {
    await page.goto(`/console${path}`);
    await expect.poll(() => page.getByRole('heading', { level: 1 }).innerText()).toMatch(CHINESE);
    await expect.poll(() => page.getByText('加载中').count()).toBe(0);
    expect(await leftoverEnglish(page), path).toEqual([]);
  }
  await page.goto('/console');
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
});
