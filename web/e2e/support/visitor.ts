// A visitor with a separate browser, who records everything that a page does wrong.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from 'playwright-core';
import type { Account } from './merchant';
import { REPOSITORY, type Server } from './server';

/** Where the pictures and texts of failing tests go. */
export const LEFT_AT = join(REPOSITORY, 'target/e2e');

/** The longest wait for an expected change of a page. */
const PATIENCE_MS = Number(process.env['PENSTOCK_E2E_PATIENCE_MS'] ?? 30_000);

export class Visitor {
  /** What went wrong, one sentence each. */
  private readonly troubles: string[] = [];
  private readonly expected: RegExp[] = [];
  /** The address of every request that the pages sent. */
  readonly requests: Request[] = [];

  readonly context: BrowserContext;
  readonly page: Page;
  private readonly origin: string;

  private constructor(server: Server, context: BrowserContext, page: Page) {
    this.context = context;
    this.page = page;
    this.origin = server.url;
  }

  static async come(browser: Browser, server: Server, options: BrowserContextOptions = {}): Promise<Visitor> {
    const context = await browser.newContext({
      baseURL: server.url,
      locale: 'en-GB',
      timezoneId: 'Asia/Shanghai',
      viewport: { width: 1280, height: 900 },
      // Without animations, a test does not depend on timing.
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        console.error(`The policy forbids ${event.blockedURI} (${event.effectiveDirective})`);
      });
    });
    const visitor = new Visitor(server, context, await context.newPage());
    visitor.watch(visitor.page);
    context.on('page', (page) => visitor.watch(page));
    return visitor;
  }

  /** A second tab of the same browser. */
  anotherTab(): Promise<Page> {
    return this.context.newPage();
  }

  /** Signs in without the form; the browser keeps the cookie. */
  async signIn(account: Account): Promise<void> {
    const answer = await this.context.request.post('/api/v1/sessions', {
      data: { phone: account.phone, password: account.password },
    });
    if (!answer.ok()) throw new Error(`${account.phone} can't sign in: ${await answer.text()}`);
  }

  /** Trouble that the test causes itself, such as a network cut. */
  expectTrouble(...patterns: RegExp[]): void {
    this.expected.push(...patterns);
  }

  get unexpectedTroubles(): string[] {
    return this.troubles.filter((trouble) => !this.expected.some((pattern) => pattern.test(trouble)));
  }

  /** Requests with this method and a matching path. */
  sent(method: string, path: RegExp): Request[] {
    return this.requests.filter(
      (request) => request.method() === method && path.test(new URL(request.url()).pathname),
    );
  }

  async leave(): Promise<void> {
    await this.context.close();
  }

  /** Saves a picture and the text of every tab. */
  async tell(name: string): Promise<void> {
    await mkdir(LEFT_AT, { recursive: true });
    for (const [at, page] of this.context.pages().entries()) {
      const file = join(LEFT_AT, `${name}-${at + 1}`);
      try {
        await page.screenshot({ path: `${file}.png`, fullPage: true, timeout: 10_000 });
        const text = await page.locator('body').ariaSnapshot({ timeout: 10_000 });
        await writeFile(`${file}.txt`, [page.url(), ...this.troubles, '', text].join('\n'));
      } catch (error) {
        await writeFile(`${file}.txt`, [page.url(), ...this.troubles, String(error)].join('\n'));
      }
    }
  }

  private watch(page: Page): void {
    page.on('pageerror', (error) =>
      this.troubles.push(`An error was thrown: ${error.stack ?? error.message}`),
    );
    page.on('console', (message) => {
      if (message.type() !== 'error' && message.type() !== 'warning') return;
      // Answers are looked at below, with their status.
      if (message.text().startsWith('Failed to load resource')) return;
      this.troubles.push(`The console says: ${message.text()}`);
    });
    page.on('request', (request) => {
      this.requests.push(request);
      const { protocol, origin } = new URL(request.url());
      if (protocol === 'data:' || protocol === 'blob:' || origin === this.origin) return;
      this.troubles.push(`Another host was asked: ${request.url()}`);
    });
    page.on('requestfailed', (request) => {
      const reason = request.failure()?.errorText ?? '';
      // A page that is closed cancels its requests.
      if (reason === 'net::ERR_ABORTED') return;
      this.troubles.push(`A request failed: ${request.method()} ${request.url()} (${reason})`);
    });
    page.on('response', (response) => {
      const path = new URL(response.url()).pathname;
      // The API may refuse; other files have to exist, and nothing may fail.
      const refused = path.startsWith('/api/') && response.status() < 500;
      if (response.status() < 400 || refused) return;
      this.troubles.push(`${response.request().method()} ${path} was answered ${response.status()}`);
    });
  }
}
