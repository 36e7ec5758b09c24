// Takes pictures of pages for the documentation: small WebP files, the same size on every machine.
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { Account } from '../e2e/support/merchant';
import { REPOSITORY, type Server } from '../e2e/support/server';

const IMAGES = join(REPOSITORY, 'docs/images');
const LIMIT_BYTES = 200_000;
const QUALITIES = [90, 80, 70, 55, 40];

export interface Look {
  /** A phone is 390 pixels wide. */
  device?: 'desktop' | 'phone';
  scheme?: 'light' | 'dark';
  locale?: 'en' | 'zh-CN';
  /** Of the window, in pixels. */
  height?: number;
  /** Lets charts move; with reduced motion they step less often. */
  motion?: boolean;
}

export class Camera {
  private readonly browser: Browser;
  private readonly server: Server;

  constructor(browser: Browser, server: Server) {
    this.browser = browser;
    this.server = server;
  }

  /** Opens a window for a user, signed in or not. */
  async open(look: Look = {}, who?: Account): Promise<{ context: BrowserContext; page: Page }> {
    const isPhone = look.device === 'phone';
    const context = await this.browser.newContext({
      baseURL: this.server.url,
      locale: look.locale ?? 'en',
      timezoneId: 'Asia/Shanghai',
      colorScheme: look.scheme ?? 'light',
      reducedMotion: look.motion ? 'no-preference' : 'reduce',
      viewport: { width: isPhone ? 390 : 1280, height: look.height ?? (isPhone ? 844 : 800) },
      deviceScaleFactor: isPhone ? 2 : 1.5,
      isMobile: isPhone,
      hasTouch: isPhone,
    });
    if (who)
      await context.request.post('/api/v1/sessions', { data: { phone: who.phone, password: who.password } });
    return { context, page: await context.newPage() };
  }

  /** Writes a picture of the window to `docs/images`. */
  async shoot(page: Page, name: string): Promise<void> {
    await settle(page);
    const devtools = await page.context().newCDPSession(page);
    await mkdir(IMAGES, { recursive: true });
    const file = join(IMAGES, `${name}.webp`);
    for (const quality of QUALITIES) {
      const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality });
      await writeFile(file, Buffer.from(data, 'base64'));
      if ((await stat(file)).size <= LIMIT_BYTES) break;
    }
    const { size } = await stat(file);
    if (size > LIMIT_BYTES) throw new Error(`${file} has ${size} bytes`);
    console.log(`docs/images/${name}.webp  ${Math.round(size / 1000)} KB`);
    await devtools.detach();
  }
}

/** Waits for fonts and pictures. */
async function settle(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await document.fonts.ready;
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  });
}
