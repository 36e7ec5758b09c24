// What is true of every page: axe finds nothing serious in light and dark, and nothing is wider than a small phone.
import { expect } from 'vitest';
import type { Page } from 'playwright-core';
import type { Sale } from '../src/api/schema';
import {
  expectAccessible,
  expectLargeTargets,
  expectNoSidewaysScrolling,
  expectStill,
  isDark,
} from './support/checks';
import { newAdmin, signUp, Stranger, type Account, type Merchant } from './support/merchant';
import type { Server } from './support/server';
import { shop } from './support/shop';
import { test } from './support/test';
import type { Visitor } from './support/visitor';

const SMALL_PHONE = { width: 360, height: 740 };

interface Scene {
  name: string;
  show: (page: Page) => Promise<unknown>;
}

const heading = (page: Page) => page.getByRole('heading', { level: 1 }).first().waitFor();

/** Opens a page and waits until what it fetches is there. */
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

/** Looks at a page in light and dark, wide and narrow. */
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

const LONG = 'A kettle with a very long name, BeautifullyBrushedStainlessSteelWithoutAnySpaceInIt, and more';

test('of the shop, for who is not signed in', async ({ visit, merchant }) => {
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

test('of the console', async ({ visit, merchant, server }) => {
  const { draft, open } = await somethingToSee(merchant, server);
  const admin: Account = await newAdmin(server);
  const stranger = await visit();
  await lookAround(stranger, [at('/console')]);
  await stranger.signIn(await signUp(server));
  await lookAround(stranger, [at('/console')]);

  const visitor = await visit();
  await visitor.signIn(admin);
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

test('in Chinese nothing is wider than a small phone either', async ({ visit, merchant, server }) => {
  const { draft, open } = await somethingToSee(merchant, server);
  const visitor = await visit({ locale: 'zh-CN', viewport: SMALL_PHONE });
  await visitor.signIn(await newAdmin(server));
  const { page } = visitor;
  const shopPaths = ['/', `/sales/${open.id}`, '/orders', '/account'];
  const consolePaths = ['', '/items', '/sales', '/sales/new', `/sales/${draft.id}`, `/sales/${open.id}/live`];
  for (const path of [...shopPaths, ...consolePaths.map((path) => `/console${path}`)]) {
    await page.goto(path);
    await heading(page);
    await expect.poll(() => page.getByText('加载中').count()).toBe(0);
    await expectNoSidewaysScrolling(page);
  }
});
