// Rules for every page: axe finds nothing serious in light or dark, and nothing is wider than a small phone.
import { expect } from 'vitest';
import type { Page } from 'playwright-core';
import type { AuditReport, DeadLetter, Sale } from '../src/api/schema';
import {
  expectAccessible,
  expectLargeTargets,
  expectNoSidewaysScrolling,
  expectStill,
  isDark,
} from './support/checks';
import { signUp, Stranger, type Merchant } from './support/merchant';
import { keepBack } from './support/network';
import type { Finished, Server } from './support/server';
import { shop } from './support/shop';
import { test } from './support/test';
import type { Visitor } from './support/visitor';

const SMALL_PHONE = { width: 360, height: 740 };

interface Scene {
  name: string;
  show: (page: Page) => Promise<unknown>;
}

const heading = (page: Page) => page.getByRole('heading', { level: 1 }).first().waitFor();

/** Opens a page and waits until its data has come. */
function at(path: string): Scene {
  return {
    name: path,
    show: async (page) => {
      await page.goto(path);
      await heading(page);
      await expect.poll(() => page.getByText('Loading …').count()).toBe(0);
    },
  };
}

/** Checks a page in light and dark, wide and narrow. */
async function lookAround(visitor: Visitor, scenes: Scene[]): Promise<void> {
  const { page } = visitor;
  for (const { name, show } of scenes) {
    await page.setViewportSize({ width: 1280, height: 900 });
    await show(page);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      expect(await isDark(page), name).toBe(colorScheme === 'dark');
      await expectAccessible(page);
    }
    await expectStill(page);
    await page.setViewportSize(SMALL_PHONE);
    await expectNoSidewaysScrolling(page);
    await expectAccessible(page);
    if (!page.url().includes('/console')) await expectLargeTargets(page);
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  }
}

/** Replaces the API's answer to requests for this path; `from` gets the real answer. */
async function answerInstead(page: Page, path: RegExp, from: (answer: unknown) => unknown): Promise<void> {
  await page.route(path, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: from(await answer.json()) });
  });
}

const LONG = 'A kettle with a very long name, BeautifullyBrushedStainlessSteelWithoutAnySpaceInIt, and more';

test('of the shop, for a visitor who is not signed in', async ({ visit, merchant }) => {
  const open = await merchant.publish({ title: LONG, units: 3, limit: 2 });
  const soon = await merchant.publish({
    opensInSeconds: 200_000,
    closesInSeconds: 300_000,
    waitingRoom: true,
  });
  const over = await merchant.publish();
  await merchant.act(over.id, 'close');
  const visitor = await visit();
  visitor.expectTrouble(/\/nowhere was answered 404/);
  const paths = ['/', '/sign-in', '/sign-up', '/orders', '/account', '/nowhere'];
  const sales = [open, soon, over].map(({ id }) => `/sales/${id}`);
  await lookAround(visitor, [...paths, ...sales].map(at));
});

test('of the shop, for a buyer', async ({ visitAsBuyer, merchant, server }) => {
  const visitor = await visitAsBuyer();
  visitor.expectTrouble(/sales\/abc was answered 404/);
  const { page } = visitor;
  const held = await merchant.publish({ title: LONG, units: 3 });
  await shop(page).open(held);
  await shop(page).buy.click();
  await shop(page).hold.waitFor();
  const orders = await visitor.context.request.get('/api/v1/orders');
  const { data } = (await orders.json()) as { data: { id: string }[] };
  const gone = await merchant.publish({ units: 1 });
  await new Stranger(server).order(gone.id);
  const room = await merchant.publish({ opensInSeconds: 3600, waitingRoom: true });
  const checked = await merchant.publish({ challenge: 'captcha' });
  const refused = await merchant.publish();
  await lookAround(visitor, [
    at('/'),
    at('/orders'),
    at(`/orders/${data[0]?.id}`),
    at('/account'),
    {
      name: 'a hold',
      show: (page) =>
        shop(page)
          .open(held)
          .then(() => shop(page).hold.waitFor()),
    },
    {
      name: 'a question',
      show: async (page) => {
        await page.getByRole('button', { name: 'Cancel order' }).click();
        await page.getByRole('dialog').waitFor();
      },
    },
    {
      name: 'sold out',
      show: (page) =>
        shop(page)
          .open(gone)
          .then(() => shop(page).joinWaitlist.waitFor()),
    },
    {
      name: 'the waitlist',
      show: async (page) => {
        await shop(page).joinWaitlist.click();
        await shop(page).onWaitlist.waitFor();
      },
    },
    {
      name: 'a sale that does not exist',
      show: async (page) => {
        await page.goto('/sales/abc');
        await page.getByRole('heading', { level: 1, name: 'This sale does not exist' }).waitFor();
      },
    },
    {
      name: 'the waiting room',
      show: async (page) => {
        await shop(page).open(room);
        await shop(page).joinRoom.click();
        await shop(page).waitingRoom.waitFor();
      },
    },
    {
      name: 'a captcha',
      show: async (page) => {
        await shop(page).open(checked);
        await shop(page).buy.click();
        await page.getByRole('img', { name: /Picture with five characters/ }).waitFor();
      },
    },
    {
      name: 'a refusal',
      show: async (page) => {
        await shop(page).open(refused);
        await page.route(/\/sales\/[^/]+\/orders$/, (route) =>
          route.fulfill({ status: 409, json: { code: 'limit_reached', status: 409, title: '', detail: '' } }),
        );
        await shop(page).buy.click();
        await page
          .getByRole('alert')
          .getByText(/over the limit per person/)
          .waitFor();
      },
    },
  ]);
});

async function somethingToSee(merchant: Merchant, server: Server): Promise<{ draft: Sale; open: Sale }> {
  const draft = await merchant.draft({ title: LONG });
  const open = await merchant.publish({ units: 5 });
  const buyer = new Stranger(server);
  await buyer.pay((await buyer.order(open.id)).id);
  await new Stranger(server).order(open.id);
  return { draft, open };
}

test('of the console', async ({ visit, visitAsAdmin, merchant, server }) => {
  const { draft, open } = await somethingToSee(merchant, server);
  const stranger = await visit();
  await lookAround(stranger, [at('/console')]);
  await stranger.signIn(await signUp(server));
  await lookAround(stranger, [at('/console')]);

  const visitor = await visitAsAdmin();
  const paths = [
    '',
    '/items',
    '/items/new',
    `/items/${draft.item.id}`,
    '/sales',
    '/sales/new',
    `/sales/${draft.id}`,
    `/sales/${open.id}`,
    `/sales/${open.id}/live`,
    '/orders',
    '/dead-letters',
    '/audit',
    '/rehearse',
    '/nowhere',
  ];
  await lookAround(
    visitor,
    paths.map((path) => at(`/console${path}`)),
  );
});

/** A confirmation dialog of the sale's page, with its consequences. */
function asked(sale: Sale, action: string, says: RegExp, units?: string): Scene {
  return {
    name: action,
    show: async (page) => {
      await page.goto(`/console/sales/${sale.id}`);
      await page.getByRole('button', { name: action }).click();
      if (units) await page.getByLabel('Units to add').fill(units);
      await page.getByRole('dialog').getByText(says).waitFor();
    },
  };
}

const audited = async (page: Page, says: string): Promise<void> => {
  await page.goto('/console/audit');
  await page.getByRole('button', { name: 'Run the audit' }).click();
  await page.getByText(says).waitFor();
  await page.getByRole('table').waitFor();
};

/** What the console shows when it is asked, or when something is wrong. */
function toldScenes(open: Sale, rush: Promise<Finished>): Scene[] {
  const letter: DeadLetter = {
    id: '1',
    position: 1,
    event: 'paid',
    sale_id: open.id,
    order_id: `${open.id}-1`,
    cause: 'order_state',
    reason: 'The records are of another mind.',
    tries: 1,
    decided_at: '2026-11-11T10:00:00Z',
    created_at: '2026-11-11T10:00:00Z',
  };
  return [
    asked(open, 'Restock', /7 units more/, '7'),
    asked(open, 'Close the sale', /can’t be undone/),
    { name: 'an audit', show: (page) => audited(page, 'Everything adds up.') },
    {
      name: 'an audit that finds something',
      show: async (page) => {
        const differences: AuditReport['differences'] = [
          { kind: 'same_key', order: `${open.id}-1`, what: 'It is the second one for its key.' },
        ];
        await answerInstead(page, /\/admin\/audit$/, (report) => ({
          ...(report as AuditReport),
          ok: false,
          duplicated: 1,
          differences,
        }));
        await audited(page, 'It does not add up.');
      },
    },
    {
      name: 'dead letters',
      show: async (page) => {
        await answerInstead(page, /\/admin\/dead-letters\b/, () => ({
          data: [letter, { ...letter, id: '2' }],
        }));
        await page.goto('/console/dead-letters');
        await page.getByText(letter.reason).first().waitFor();
      },
    },
    {
      name: 'the report of a rehearsal',
      show: async (page) => {
        const { code, stdout, stderr } = await rush;
        expect(code, stderr).toBe(0);
        await page.goto('/console/rehearse');
        await page
          .locator('input[type=file]')
          .setInputFiles({ name: 'r.json', mimeType: 'application/json', buffer: Buffer.from(stdout) });
        await page.getByText('Every promise was kept.').first().waitFor();
        await page.locator('canvas').first().waitFor();
      },
    },
  ];
}

test('of the console, when it shows answers and warnings', async ({ visitAsAdmin, merchant, server }) => {
  const { open } = await somethingToSee(merchant, server);
  const words = ['rush', '--url', server.url, '--buyers', '60', '--units', '20', '--opens-in', '1'];
  const rush = server.begin([...words, '--threads', '1', '--data', server.data, '--quiet', '--json']);
  try {
    await lookAround(await visitAsAdmin(), toldScenes(open, rush.finished));
  } finally {
    rush.end();
  }
});

test('waiting animations stand still under reduced motion', async ({
  visitAsBuyer,
  visitAsAdmin,
  merchant,
}) => {
  const running = (page: Page) =>
    page.evaluate(() => document.getAnimations().filter(({ playState }) => playState === 'running').length);
  const expectToHeed = async (page: Page): Promise<void> => {
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    await expect.poll(() => running(page)).toBeGreaterThan(0);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await expectStill(page);
  };

  const sale = await merchant.publish();
  const buyer = await visitAsBuyer();
  const order = await keepBack(buyer.page, 'POST', /\/orders$/);
  await shop(buyer.page).open(sale);
  await shop(buyer.page).buy.click();
  await buyer.page.getByText('Placing your order').waitFor();
  await expectToHeed(buyer.page);
  await order.letGo();
  await shop(buyer.page).hold.waitFor();

  const { page } = await visitAsAdmin();
  const audit = await keepBack(page, 'GET', /\/admin\/audit$/);
  await page.goto('/console/audit');
  await page.getByRole('button', { name: 'Run the audit' }).click();
  await page.getByText('You can leave the page').waitFor();
  await expectToHeed(page);
  await audit.letGo();
  await page.getByText('Everything adds up.').waitFor();
});

test('in Chinese nothing is wider than a small phone either', async ({ visitAsAdmin, merchant, server }) => {
  const { draft, open } = await somethingToSee(merchant, server);
  const { page } = await visitAsAdmin({ locale: 'zh-CN', viewport: SMALL_PHONE });
  const shopPaths = ['/', `/sales/${open.id}`, '/orders', '/account'];
  const consolePaths = ['', '/items', '/sales', '/sales/new', `/sales/${draft.id}`, `/sales/${open.id}/live`];
  for (const path of [...shopPaths, ...consolePaths.map((path) => `/console${path}`)]) {
    await page.goto(path);
    await heading(page);
    await expect.poll(() => page.getByText('加载中').count()).toBe(0);
    await expectNoSidewaysScrolling(page);
  }
});
