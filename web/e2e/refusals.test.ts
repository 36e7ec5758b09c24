// A buyer who gets nothing, or nothing yet, is told what happened and what to do.
import { expect } from 'vitest';
import { signUp, Stranger } from './support/merchant';
import { shop } from './support/shop';
import { test } from './support/test';

test('of two who race for the last unit one gets it, and the other is told what to do', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish({ units: 1 });
  const racers = await Promise.all([visitAsBuyer(), visitAsBuyer()]);
  for (const { page } of racers) {
    await shop(page).open(sale);
    await shop(page).buy.waitFor();
  }
  await Promise.all(racers.map(({ page }) => shop(page).buy.click()));
  const outcomes = await Promise.all(
    racers.map(({ page }) =>
      Promise.race([
        shop(page)
          .hold.waitFor()
          .then(() => 'hold'),
        shop(page)
          .joinWaitlist.waitFor()
          .then(() => 'waitlist'),
      ]),
    ),
  );
  expect(outcomes.toSorted()).toEqual(['hold', 'waitlist']);
  const loser = racers[outcomes.indexOf('waitlist')]?.page;
  const says = (await loser?.getByRole('main').innerText()) ?? '';
  expect(says.match(/sold out/gi), says).toHaveLength(1);
  expect(says).not.toMatch(/\d+ left|\d+ of \d+|Buy now/);
  expect(says).toMatch(/You were not charged/);
  expect((await merchant.stats(sale.id)).held).toBe(1);
});

test('a buyer who finds a sale sold out is told the likely place on its waitlist, and gets it', async ({
  visit,
  visitAsBuyer,
  merchant,
  server,
}) => {
  const sale = await merchant.publish({ units: 1, limit: 3 });
  await new Stranger(server).order(sale.id);
  await new Stranger(server).joinWaitlist(sale.id);
  await new Stranger(server).joinWaitlist(sale.id);
  const stranger = await visit();
  await shop(stranger.page).open(sale);
  await stranger.page.getByText('If you join now, you are likely number 3.').waitFor();
  await stranger.page.getByRole('link', { name: 'Sign in to join the waitlist' }).waitFor();
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await page.getByText('If you join now, you are likely number 3.').waitFor();
  await shop(page).joinWaitlist.click();
  await shop(page).onWaitlist.waitFor();
  expect(await page.getByRole('main').innerText()).toMatch(/Your place\s+3/);
});

test('a buyer on the waitlist gets the unit that comes back', async ({ visitAsBuyer, merchant, server }) => {
  const sale = await merchant.publish({ units: 1 });
  const holder = new Stranger(server);
  const order = await holder.order(sale.id);
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).joinWaitlist.click();
  await shop(page).onWaitlist.waitFor();
  await page.reload();
  await shop(page).onWaitlist.waitFor();

  await holder.cancel(order.id);
  await shop(page).offered.waitFor();
  await expect.poll(() => page.title()).toMatch(/Pay/);
  await shop(page).pay.click();
  await shop(page).paid.waitFor();
  await expect.poll(async () => (await merchant.stats(sale.id)).paid).toBe(1);
});

test('a buyer who leaves the waitlist is no longer on it', async ({ visitAsBuyer, merchant, server }) => {
  const sale = await merchant.publish({ units: 1 });
  await new Stranger(server).order(sale.id);
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).joinWaitlist.click();
  await shop(page).onWaitlist.waitFor();
  await page.getByRole('button', { name: 'Leave the waitlist' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave the waitlist' }).click();
  await shop(page).joinWaitlist.waitFor();
});

test('a hold that is not paid in time is over, and can be bought again', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish({ holdSeconds: 6 });
  const { page } = await visitAsBuyer();
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  await shop(page).expired.waitFor();
  await expect.poll(async () => (await merchant.stats(sale.id)).available).toBe(10);
  await shop(page).buyAgain.click();
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
});

test('a sale that is paused or closed says so, and an order that is held can still be paid', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish();
  const [buyer, late] = await Promise.all([visitAsBuyer(), visitAsBuyer()]);
  await shop(late.page).open(sale);
  await shop(late.page).buy.waitFor();
  await shop(buyer.page).open(sale);
  await shop(buyer.page).buy.click();
  await shop(buyer.page).hold.waitFor();
  await merchant.act(sale.id, 'pause');
  await late.page.getByText('The seller has paused this sale.').first().waitFor();
  await merchant.act(sale.id, 'resume');
  await shop(late.page).buy.waitFor();
  await merchant.act(sale.id, 'close');
  await late.page.getByText('This sale is over.').first().waitFor();
  await shop(buyer.page).pay.click();
  await shop(buyer.page).paid.waitFor();
});

test('a buyer who has as many as one person may buy is led to the orders', async ({
  visitAsBuyer,
  merchant,
}) => {
  const sale = await merchant.publish();
  const visitor = await visitAsBuyer();
  const { page } = visitor;
  // This tab does not know yet what happened in the other tab.
  await shop(page).open(sale);
  await shop(page).buy.click();
  await shop(page).pay.click();
  await shop(page).paid.waitFor();
  await page.reload();
  await page.getByText(/as many as one person may buy/).waitFor();
  await page
    .getByRole('link', { name: /orders/i })
    .last()
    .click();
  await page.getByRole('heading', { level: 1, name: 'My orders' }).waitFor();
});

test('a buyer who bought on another device is told that it would be too many', async ({
  visit,
  merchant,
  server,
}) => {
  const sale = await merchant.publish();
  const account = await signUp(server);
  const here = await visit();
  await here.signIn(account);
  const { page } = here;
  await shop(page).open(sale);
  await shop(page).buy.waitFor();
  const elsewhere = await visit();
  await elsewhere.signIn(account);
  await shop(elsewhere.page).open(sale);
  await shop(elsewhere.page).buy.click();
  await shop(elsewhere.page).pay.click();
  await shop(elsewhere.page).paid.waitFor();

  await shop(page).buy.click();
  await page.getByText('This order would take you over the limit per person.').first().waitFor();
  await page.getByRole('link', { name: 'See my orders' }).first().click();
  await page.getByRole('heading', { level: 1, name: 'My orders' }).waitFor();
  expect((await merchant.stats(sale.id)).paid).toBe(1);
});

test('a page or a sale that does not exist gets a friendly page', async ({ visit }) => {
  const visitor = await visit();
  visitor.expectTrouble(/\/(nowhere|sales\/0{13}) was answered 404/);
  await visitor.page.goto('/nowhere');
  await visitor.page.getByRole('heading', { name: 'This page does not exist' }).waitFor();
  await visitor.page.goto('/sales/0000000000000');
  await visitor.page.getByRole('heading', { name: 'This sale does not exist' }).waitFor();
});
