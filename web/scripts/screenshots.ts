// Takes the pictures for the documentation: `npm run screenshots`. Starts a shop with some content, brings it
// into each state through the pages, and photographs it in light and dark, on desktops and phones.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { startChromium } from '../e2e/support/chromium';
import { Merchant, newAdmin, signUp, Stranger, type Account, type Offer } from '../e2e/support/merchant';
import { ADMIN_TOKEN, REPOSITORY, Server } from '../e2e/support/server';
import type { Picture, Sale } from '../src/api/schema';
import { Camera, type Look } from './camera';
import { preferredFonts } from './fonts';

/** Slow enough to show a place in the waiting room. */
const SETTINGS = { PENSTOCK_GATE__ADMISSIONS_PER_SECOND: 2 };
const CROWD = 240;

/** Each scene is taken in these looks; the file name is the scene's with this ending. */
const LOOKS = {
  '': {},
  '-dark': { scheme: 'dark' },
  '-phone': { device: 'phone' },
} satisfies Record<string, Look>;

export async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-fonts-'));
  const server = await Server.start({ settings: SETTINGS });
  const browser = await startChromium({ FONTCONFIG_FILE: await preferredFonts(folder) });
  try {
    const studio = new Studio(server, new Camera(browser, server));
    await studio.furnish();
    await studio.shop();
    await studio.waitingRoom();
    await studio.hold();
    await studio.console();
    await studio.live();
  } finally {
    await browser.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** On a phone, the panel is below the picture. */
async function showPanel(page: Page): Promise<void> {
  if ((page.viewportSize()?.width ?? 0) < 600)
    await page.getByRole('heading', { level: 1 }).evaluate((heading) => heading.scrollIntoView());
}

/** Whether the live view counts at least this many refusals. */
function hasRefused(count: number): boolean {
  const tile = [...document.querySelectorAll('dl > *')].find((one) => one.textContent?.includes('Refused'));
  const total = /([\d,]+) in total/.exec(tile?.textContent ?? '')?.[1] ?? '0';
  return Number(total.replaceAll(',', '')) >= count;
}

class Studio {
  private readonly server: Server;
  private readonly camera: Camera;
  private readonly merchant: Merchant;
  private readonly sales = new Map<string, Sale>();

  constructor(server: Server, camera: Camera) {
    this.server = server;
    this.camera = camera;
    this.merchant = new Merchant(server);
  }

  /** Creates the content of the shop. */
  async furnish(): Promise<void> {
    await this.putUp('phone', {
      title: 'Phone X',
      description: 'Thin, bright, and with a battery for two days.',
      units: 100,
      opensInSeconds: 2 * 3600 + 11 * 60,
      closesInSeconds: 5 * 3600,
    });
    await this.putUp('headphones', {
      title: 'Headphones Q',
      description: 'Quiet outside, music inside. Folds into a small case.',
      price: '899.00',
      regularPrice: '1299.00',
      units: 600,
      challenge: 'pow',
      waitingRoom: true,
      closesInSeconds: 4 * 3600,
    });
    await this.putUp('kettle', {
      title: 'Kettle K',
      description: 'A litre in three minutes, to the degree.',
      price: '249.00',
      regularPrice: '349.00',
      units: 60,
      limit: 2,
    });
    for (let buyer = 0; buyer < 31; buyer += 1) {
      const stranger = new Stranger(this.server);
      const order = await stranger.order(this.sale('kettle').id);
      if (buyer % 4) await stranger.pay(order.id);
    }
  }

  async shop(): Promise<void> {
    const list = async (page: Page) => {
      await page.goto('/');
      await page.getByRole('heading', { level: 3 }).nth(2).waitFor();
    };
    const sale = async (page: Page) => {
      await page.goto(`/sales/${this.sale('phone').id}`);
      await page.getByRole('heading', { level: 1, name: 'Phone X' }).waitFor();
    };
    await this.take('shop', { ...LOOKS, '-zh-phone': { device: 'phone', locale: 'zh-CN' } }, list);
    await this.take('sale', { '': {}, '-phone': { device: 'phone' }, '-zh': { locale: 'zh-CN' } }, sale);
  }

  async waitingRoom(): Promise<void> {
    const { id } = this.sale('headphones');
    for (let place = 0; place < CROWD; place += 1) await new Stranger(this.server).ticket(id);
    const wait = async (page: Page) => {
      await page.goto(`/sales/${id}`);
      await page.getByRole('button', { name: /^Buy now/ }).click();
      await page.getByRole('heading', { name: 'You are in the waiting room' }).waitFor();
      // The pace is known once some people have been let in.
      await page
        .getByText(/to go$/)
        .first()
        .waitFor();
      await showPanel(page);
    };
    await this.take('waiting-room', LOOKS, wait, signUp);
  }

  async hold(): Promise<void> {
    const buy = async (page: Page) => {
      await page.goto(`/sales/${this.sale('kettle').id}`);
      await page.getByRole('button', { name: /^Buy now/ }).click();
      await page.getByRole('button', { name: /^Pay / }).waitFor();
      await showPanel(page);
    };
    await this.take('hold', LOOKS, buy, signUp);
  }

  async console(): Promise<void> {
    const draft = await this.merchant.draft({
      title: 'Lantern',
      description: 'Burns for forty hours.',
      price: '99.00',
      regularPrice: '199.00',
      units: 500,
      limit: 1,
      opensInSeconds: 26 * 3600,
      closesInSeconds: 30 * 3600,
      challenge: 'pow',
      waitingRoom: true,
    });
    const overview = async (page: Page) => {
      await page.goto('/console');
      await page.getByRole('row').nth(1).waitFor();
    };
    const checklist = async (page: Page) => {
      await page.goto(`/console/sales/${draft.id}`);
      await page.getByRole('heading', { level: 1, name: 'Lantern' }).waitFor();
    };
    await this.take('console', LOOKS, overview, newAdmin);
    await this.take('checklist', { '': {} }, checklist, newAdmin);
  }

  /** The live view with simulated buyers, in three windows at once. */
  async live(): Promise<void> {
    const { id } = await this.putUp('phone', { title: 'Phone X', units: 1200, holdSeconds: 900 });
    const admin = await newAdmin(this.server);
    const windows = [];
    for (const [ending, look] of Object.entries<Look>(LOOKS)) {
      const isPhone = look.device === 'phone';
      const { context, page } = await this.camera.open(
        { ...look, motion: true, ...(isPhone ? {} : { height: 1130 }) },
        admin,
      );
      await page.goto(`/console/sales/${id}/live`);
      await page.locator('canvas').first().waitFor();
      windows.push({ ending, context, page });
    }
    const words = ['rush', '--url', this.server.url, '--sale', id, '--data', this.server.data, '--quiet'];
    const crowd = [
      '--buyers',
      '6000',
      '--rate',
      '90',
      '--ramp',
      '10',
      '--mix',
      'pays=0.75,pays_late=0.1,cancels=0.1',
    ];
    const rush = this.server.begin([...words, ...crowd]);
    // Once many have been refused, every chart has content.
    const last = windows.at(-1)?.page;
    await last?.waitForFunction(hasRefused, 1500, { timeout: 120_000 });
    for (const { ending, context, page } of windows) {
      if (ending === '-phone') await page.locator('canvas').first().scrollIntoViewIfNeeded();
      await this.camera.shoot(page, `live${ending}`);
      await context.close();
    }
    rush.end();
    await rush.finished;
  }

  private async take(
    scene: string,
    looks: Record<string, Look>,
    prepare: (page: Page) => Promise<void>,
    newVisitor?: (server: Server) => Promise<Account>,
  ): Promise<void> {
    for (const [ending, look] of Object.entries(looks)) {
      const { context, page } = await this.camera.open(look, await newVisitor?.(this.server));
      await prepare(page);
      await this.camera.shoot(page, scene + ending);
      await context.close();
    }
  }

  private async putUp(picture: string, offer: Offer): Promise<Sale> {
    const answer = await fetch(`${this.server.url}/api/v1/admin/pictures`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'image/webp' },
      body: await readFile(join(REPOSITORY, `crates/penstock/demo/${picture}.webp`)),
    });
    const uploaded = (await answer.json()) as Picture;
    const sale = await this.merchant.publish({ ...offer, picture: uploaded.picture });
    this.sales.set(picture, sale);
    return sale;
  }

  private sale(picture: string): Sale {
    const sale = this.sales.get(picture);
    if (!sale) throw new Error(`There is no sale of the ${picture}`);
    return sale;
  }
}
