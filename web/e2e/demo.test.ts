// What `make run` starts: everything it prints works, and a new user can buy without instructions.
import { expect } from 'vitest';
import { newPhone } from './support/merchant';
import { shop } from './support/shop';
import { test } from './support/test';

test.override({ serverOptions: { flags: ['--demo'], adminToken: undefined } });

/** The text after a name in the lines that the server printed. */
function printed(lines: string[], name: string): string {
  const line = lines.find((text) => text.trim().startsWith(name)) ?? '';
  return line.trim().slice(name.length).trim();
}

test('a new user finds the demo’s headphones, signs up and buys them', async ({ visit, server }) => {
  await expect.poll(() => printed(server.printed, 'the shop')).not.toBe('');
  const { page } = await visit();
  await page.goto(printed(server.printed, 'the shop'));
  await page
    .getByRole('link', { name: /Headphones Q/ })
    .first()
    .click();
  // Every item has its picture.
  await page.getByRole('heading', { level: 1, name: 'Headphones Q' }).waitFor();
  const picture = page.getByRole('main').getByRole('img').first();
  await expect
    .poll(() => picture.evaluate((image) => (image as HTMLImageElement).naturalWidth))
    .toBeGreaterThan(100);
  await shop(page).signIn.first().click();
  await page.getByRole('main').getByRole('link', { name: 'Create account' }).click();
  // The page before this one has a field for the phone, too.
  await page.getByRole('heading', { level: 1, name: 'Create account' }).waitFor();
  await page.getByLabel('Phone number').fill(newPhone());
  await page.getByRole('button', { name: 'Send code' }).click();
  await page
    .getByText(/This is a demo/)
    .first()
    .waitFor();
  await page.getByLabel('Name').fill('Ada');
  await page.getByLabel('Password').fill('correct-horse-battery');
  await page.getByRole('button', { name: 'Create account' }).click();
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await shop(page).pay.click();
  await shop(page).paid.waitFor();
});

test('the merchant gets into the console with the printed credentials', async ({ visit, server }) => {
  await expect.poll(() => printed(server.printed, 'the merchant')).not.toBe('');
  const [, phone = '', password = ''] =
    /phone (\S+), password (\S+)/.exec(printed(server.printed, 'the merchant')) ?? [];
  const { page } = await visit();
  await page.goto(printed(server.printed, 'the console'));
  await page.getByLabel('Phone number').fill(phone);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  for (const title of ['Phone X', 'Headphones Q', 'Kettle K'])
    await page.getByRole('link', { name: title, exact: true }).waitFor();
});
