// Where the session is kept, and where it is not.
import { expect } from 'vitest';
import { tokensInReach } from './support/checks';
import { signUp } from './support/merchant';
import { shop } from './support/shop';
import { test } from './support/test';

test('the session is in a cookie that no script can read, and in no storage', async ({
  visit,
  merchant,
  server,
}) => {
  const account = await signUp(server);
  const sale = await merchant.publish({ challenge: 'pow', waitingRoom: true });
  const visitor = await visit();
  const { page } = visitor;
  await page.goto('/sign-in');
  await page.getByLabel('Phone number').fill(account.phone);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();

  const cookies = await visitor.context.cookies();
  const cookie = cookies.find(({ name }) => name === 'penstock_session');
  expect(cookie).toMatchObject({ name: 'penstock_session', httpOnly: true, path: '/' });
  expect(['Lax', 'Strict']).toContain(cookie?.sameSite);
  const token = cookie?.value ?? '';
  expect(token).not.toBe('');
  expect(await tokensInReach(page)).toEqual([]);
  const everything = await page.evaluate(
    () => document.cookie + JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }),
  );
  expect(everything).not.toContain(token);
});

test('Back after signing in leads to the page before the sale, not to the sale again', async ({
  visit,
  merchant,
  server,
}) => {
  const account = await signUp(server);
  const sale = await merchant.publish({ title: 'Kettle B' });
  const { page } = await visit();
  await page.goto('/');
  await page.getByRole('link', { name: /Kettle B/ }).click();
  await shop(page).signIn.click();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  // To the other form and back, like somebody who is not sure.
  await page.getByRole('main').getByRole('link', { name: 'Create account' }).click();
  await page.getByRole('heading', { level: 1, name: 'Create account' }).waitFor();
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await page.getByLabel('Phone number').fill(account.phone);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await shop(page).buy.waitFor();
  expect(new URL(page.url()).pathname).toBe(`/sales/${sale.id}`);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
  expect(new URL(page.url()).pathname).toBe('/');
});

test('another site’s page can’t order with somebody’s cookie', async ({ visitAsBuyer, merchant, server }) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  const answer = await visitor.context.request.post(`/api/v1/sales/${sale.id}/orders`, {
    data: { quantity: 1 },
    headers: {
      Origin: 'https://elsewhere.example',
      'Sec-Fetch-Site': 'cross-site',
      'Idempotency-Key': 'theirs',
    },
  });
  expect(answer.status()).toBe(403);
  expect((await merchant.stats(sale.id)).held).toBe(0);
  expect(server.url).toContain('127.0.0.1');
});

test('signing out works in every tab, and the cookie is gone', async ({ visitAsBuyer }) => {
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  await page.goto('/account');
  const other = await visitor.anotherTab();
  await other.goto('/');
  await other.getByRole('link', { name: 'Ada' }).waitFor();
  await page.getByRole('main').getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Sign in' }).first().waitFor();
  await other.getByRole('link', { name: 'Sign in' }).first().waitFor();
  const kept = (await visitor.context.cookies()).map(({ name }) => name);
  expect(kept, 'only the mark of a known browser').toEqual(['penstock_device']);
});

test('a wrong password gets a message, and typed text is kept', async ({ visit, server }) => {
  const account = await signUp(server);
  const { page } = await visit();
  await page.goto('/sign-in');
  await page.getByLabel('Phone number').fill(account.phone);
  await page.getByLabel('Password').fill('something-else');
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('Phone number and password don’t match.').waitFor();
  expect(await page.getByLabel('Phone number').inputValue()).toBe(account.phone);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
});

test('a number without a country code belongs to the chosen country', async ({ visit, server }) => {
  const account = await signUp(server);
  const { page } = await visit();
  await page.goto('/sign-in');
  const country = page.getByLabel('Country or region');
  await expect.poll(() => country.inputValue(), { message: 'the shop’s own' }).toBe('CN');
  await country.focus();
  await page.keyboard.type('Germ');
  expect(await country.inputValue()).toBe('DE');
  await page.getByLabel('Phone number').fill(account.phone.replace('+86', ''));
  await page.getByLabel('Password').fill(account.password);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('Phone number and password don’t match.').waitFor();
  await page.getByRole('button', { name: '中文' }).click();
  const inChinese = page.getByLabel('国家或地区');
  expect(await inChinese.inputValue(), 'the choice stays').toBe('DE');
  await inChinese.selectOption({ label: '中国 +86' });
  await page.getByLabel('密码').fill(account.password);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Ada' }).first().waitFor();
});

test('after signing in nobody is sent to another site', async ({ visit, server }) => {
  const account = await signUp(server);
  for (const to of [
    'https://elsewhere.example/',
    '//elsewhere.example/',
    '/\\elsewhere.example',
    'javascript:alert(1)',
  ]) {
    const { page } = await visit();
    await page.goto(`/sign-in?to=${encodeURIComponent(to)}`);
    await page.getByLabel('Phone number').fill(account.phone);
    await page.getByLabel('Password').fill(account.password);
    await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
    await page
      .getByRole('link', { name: /Account|Ada/ })
      .first()
      .waitFor();
    expect(new URL(page.url()).origin, to).toBe(server.url);
  }
});

test('the shop works where nothing can be stored', async ({ visitAsBuyer, merchant }) => {
  const sale = await merchant.publish({ challenge: 'pow', waitingRoom: true });
  const visitor = await visitAsBuyer();
  await visitor.context.addInitScript(() => {
    for (const name of ['localStorage', 'sessionStorage'])
      Object.defineProperty(globalThis, name, {
        get() {
          throw new DOMException('refused', 'SecurityError');
        },
      });
  });
  const { page } = visitor;
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await shop(page).pay.click();
  await shop(page).paid.waitFor();
});
