// The base of every browser test: a server and a browser for its file, and fresh visitors for each test.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { test as plain } from 'vitest';
import { startChromium } from './chromium';
import { Merchant, newAdmin, signUp } from './merchant';
import { Server, type ServerOptions } from './server';
import { LEFT_AT, Visitor } from './visitor';

export interface World {
  serverOptions: ServerOptions;
  server: Server;
  browser: Browser;
  merchant: Merchant;
  /** Opens a separate browser for a visitor. */
  visit: (options?: BrowserContextOptions) => Promise<Visitor>;
  /** The same for a signed-in buyer. */
  visitAsBuyer: (options?: BrowserContextOptions) => Promise<Visitor>;
  /** The same for a merchant. */
  visitAsAdmin: (options?: BrowserContextOptions) => Promise<Visitor>;
}

export const test = plain.extend<World>({
  serverOptions: [{}, { scope: 'file' }],
  server: [
    async ({ serverOptions }, use) => {
      const server = await Server.start(serverOptions);
      try {
        await hasPages(server);
        await use(server);
      } finally {
        await server.stop();
      }
    },
    { scope: 'file' },
  ],
  browser: [
    // Vitest reads the dependencies of a fixture from this parameter.
    // eslint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const browser = await startChromium();
      await use(browser);
      await browser.close();
    },
    { scope: 'file' },
  ],
  merchant: [async ({ server }, use) => use(new Merchant(server)), { scope: 'file' }],
  visit: async ({ server, browser, task }, use) => {
    const visitors: Visitor[] = [];
    await use(async (options) => {
      const visitor = await Visitor.come(browser, server, options);
      visitors.push(visitor);
      return visitor;
    });
    const troubles = visitors.flatMap((visitor) => visitor.unexpectedTroubles);
    if (troubles.length || task.result?.state === 'fail') {
      const name = `${task.file.name}-${task.name}`.replace(/[^\w]+/g, '-');
      for (const [at, visitor] of visitors.entries()) await visitor.tell(`${name}-${at + 1}`);
      await mkdir(LEFT_AT, { recursive: true });
      await writeFile(join(LEFT_AT, `${name}.log`), server.story);
    }
    for (const visitor of visitors) await visitor.leave();
    if (troubles.length) throw new Error(`The pages got into trouble:\n${troubles.join('\n')}`);
  },
  visitAsBuyer: async ({ server, visit }, use) => {
    await use(async (options) => {
      const visitor = await visit(options);
      await visitor.signIn(await signUp(server));
      return visitor;
    });
  },
  visitAsAdmin: async ({ server, visit }, use) => {
    await use(async (options) => {
      const visitor = await visit(options);
      await visitor.signIn(await newAdmin(server));
      return visitor;
    });
  },
});

/** A binary that was built without pages has none. */
async function hasPages(server: Server): Promise<void> {
  const page = await (await fetch(server.url, { headers: { Accept: 'text/html' } })).text();
  if (!page.includes('/assets/'))
    throw new Error('This penstock was built without its pages: make web, then cargo build --bin penstock');
}
