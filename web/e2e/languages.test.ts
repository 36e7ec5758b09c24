// English and Chinese, chosen by the browser and by the visitor.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { newPhone, Stranger } from './support/merchant';
import { test } from './support/test';

const CHINESE = /\p{Script=Han}/u;

test('a browser that speaks Chinese gets Chinese, with its money and times', async ({ visit, merchant }) => {
  const sale = await merchant.publish({ title: 'Lamp', price: '1999.00' });
  const { page } = await visit({ locale: 'zh-CN' });
  await page.goto(`/sales/${sale.id}`);
  await page.getByRole('heading', { level: 1, name: 'Lamp' }).waitFor();
  expect(await page.locator('html').getAttribute('lang')).toBe('zh-CN');
  await page.getByText('¥1,999').first().waitFor();
  // Everything is Chinese except the merchant's texts, the brand and the other language's name.
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

/** The words of a page that are not Chinese, except names, numbers, units and commands. */
async function leftoverEnglish(page: Page): Promise<string[]> {
  const text = await page.evaluate(() => {
    const body = document.body.cloneNode(true) as HTMLElement;
    for (const part of body.querySelectorAll('code, pre, noscript, [lang=en], a[href^="/orders/"]'))
      part.remove();
    // Text for screen readers counts, too.
    const heard = ['aria-label', 'placeholder', 'alt', 'title'].flatMap((name) =>
      [...body.querySelectorAll(`[${name}]`)].map((part) => part.getAttribute(name)),
    );
    return [document.title, body.textContent, ...heard].join(' ');
  });
  const known =
    /[0-9a-z]{13}(-\d+)?|Lamp [0-9a-f]{8}|Lamp|Made for a test\.|Penstock|penstock\S*|English|API|http|Ada|Grace|CNY|CSV|JSON|ID|MiB|KiB|PNG|JPEG|WebP|AVIF|GIF|https?:\S*|Asia\/Shanghai|GMT|PENSTOCK_\w+|rehearsal\.json|--\w+/g;
  return text.replaceAll(known, '').match(/[A-Za-z]{2,}/g) ?? [];
}

test('nothing of signing up is left in English', async ({ visit }) => {
  const { page } = await visit({ locale: 'zh-CN' });
  await page.goto('/sign-up');
  const phone = page.getByLabel('手机号');
  await phone.waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
  await phone.fill('12');
  await page.getByRole('button', { name: '获取验证码' }).click();
  await expect.poll(() => phone.getAttribute('aria-invalid')).toBe('true');
  expect(await leftoverEnglish(page)).toEqual([]);
  await phone.fill(newPhone());
  await page.getByRole('button', { name: '获取验证码' }).click();
  await page.getByLabel('姓名').waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
});

test('nothing of a purchase is left in English', async ({ visitAsBuyer, merchant, server }) => {
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

  const checked = await merchant.publish({ title: 'Lamp', challenge: 'captcha' });
  await page.goto(`/sales/${checked.id}`);
  await page.getByRole('button', { name: /^立即/ }).click();
  await page.getByRole('img', { name: '包含五个字符的图片' }).waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);

  const gone = await merchant.publish({ title: 'Lamp', units: 1 });
  await new Stranger(server).order(gone.id);
  await page.goto(`/sales/${gone.id}`);
  const join = page.getByRole('button', { name: '加入候补' });
  await join.waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
  await join.click();
  await page.getByText('你已在候补名单中').first().waitFor();
  expect(await leftoverEnglish(page)).toEqual([]);
});

test('the console speaks Chinese, and English when it is asked to', async ({ visitAsAdmin, merchant }) => {
  const draft = await merchant.draft();
  const guarded = await merchant.publish({ opensInSeconds: 3600, challenge: 'pow', waitingRoom: true });
  const { page } = await visitAsAdmin({ locale: 'zh-CN' });
  for (const path of [
    '',
    '/items',
    '/items/new',
    `/items/${draft.item.id}`,
    '/sales',
    '/sales/new',
    `/sales/${draft.id}`,
    `/sales/${draft.id}/edit`,
    `/sales/${guarded.id}`,
    `/sales/${guarded.id}/live`,
    '/orders',
    '/dead-letters',
    '/audit',
    '/rehearse',
  ]) {
    await page.goto(`/console${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await expect.poll(() => page.getByRole('main').innerText()).toMatch(CHINESE);
    await expect.poll(() => page.getByText('加载中').count()).toBe(0);
    expect(await leftoverEnglish(page), path).toEqual([]);
  }
  await page.goto('/console');
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
});
