// Prints the cost of a first visit: bytes, requests, and how soon a page can be read and used, on the network
// and the processor of a modest phone. `node scripts/run.mjs figures [--json] [--runs 3]`.
import type { Browser, BrowserContext, CDPSession } from 'playwright-core';
import { startChromium } from '../e2e/support/chromium';
import { call, newAdmin, type Account } from '../e2e/support/merchant';
import { Server } from '../e2e/support/server';
import type { SalePage } from '../src/api/schema';

const PROFILE = { megabitsPerSecond: 1.6, latencyMs: 150, cpuSlowdown: 4 };
/** How long nothing may block the page before it counts as interactive. */
const QUIET_MS = 3_000;

interface Visit {
  name: string;
  path: string;
  signedIn: boolean;
}

interface Figures {
  page: string;
  requests: number;
  /** Bytes on the network, headers included. */
  bytes: {
    html: number;
    css: number;
    js: number;
    api: number;
    pictures: number;
    other: number;
    total: number;
  };
  firstContentfulPaintMs: number;
  largestContentfulPaintMs: number;
  timeToInteractiveMs: number;
  totalBlockingMs: number;
}

export async function main(words: string[]): Promise<void> {
  const runs = Number(words[words.indexOf('--runs') + 1] || 3) || 3;
  const server = await Server.start({ flags: ['--demo'] });
  const browser = await startChromium();
  try {
    const admin = await newAdmin(server);
    const sales = await call<SalePage>(server, '', 'GET', '/sales');
    const visits = [
      { name: 'shop: list', path: '/', signedIn: false },
      { name: 'shop: sale', path: `/sales/${sales.data[0]?.id}`, signedIn: false },
      { name: 'console', path: '/console', signedIn: true },
    ];
    const figures: Figures[] = [];
    for (const visit of visits) {
      const all: Figures[] = [];
      for (let run = 0; run < runs; run += 1) all.push(await measure(browser, server, visit, admin));
      figures.push(middle(all));
    }
    if (words.includes('--json'))
      console.log(JSON.stringify({ profile: PROFILE, runs, pages: figures }, null, 2));
    else print(figures, runs);
  } finally {
    await browser.close();
    await server.stop();
  }
}

async function measure(browser: Browser, server: Server, visit: Visit, admin: Account): Promise<Figures> {
  const context = await browser.newContext({ baseURL: server.url, viewport: { width: 412, height: 823 } });
  try {
    if (visit.signedIn)
      await context.request.post('/api/v1/sessions', {
        data: { phone: admin.phone, password: admin.password },
      });
    return await measureIn(context, visit);
  } finally {
    await context.close();
  }
}

async function measureIn(context: BrowserContext, visit: Visit): Promise<Figures> {
  const page = await context.newPage();
  await page.addInitScript(observe);
  const devtools = await context.newCDPSession(page);
  const bytes = await countBytes(devtools);
  await slowDown(devtools);
  await page.goto(visit.path);
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.waitForFunction(
    (quietMs) => performance.now() - Math.max(seen.longTaskEnd, seen.lastLoadEnd, seen.lcp) > quietMs,
    QUIET_MS,
  );
  const times = await page.evaluate(() => ({ ...seen }));
  const count = (kind: string) =>
    bytes.filter((entry) => entry.kind === kind).reduce((sum, { size }) => sum + size, 0);
  return {
    page: visit.name,
    requests: bytes.length,
    bytes: {
      html: count('html'),
      css: count('css'),
      js: count('js'),
      api: count('api'),
      pictures: count('pictures'),
      other: count('other'),
      total: bytes.reduce((sum, { size }) => sum + size, 0),
    },
    firstContentfulPaintMs: Math.round(times.fcp),
    largestContentfulPaintMs: Math.round(times.lcp),
    timeToInteractiveMs: Math.round(Math.max(times.fcp, times.longTaskEnd, times.lastScriptEnd)),
    totalBlockingMs: Math.round(times.blocking),
  };
}

/** The page's own timings; kept in the page, from before its first script. */
interface Seen {
  fcp: number;
  lcp: number;
  longTaskEnd: number;
  lastLoadEnd: number;
  lastScriptEnd: number;
  blocking: number;
}
declare const seen: Seen;

function observe(): void {
  const seen: Seen = { fcp: 0, lcp: 0, longTaskEnd: 0, lastLoadEnd: 0, lastScriptEnd: 0, blocking: 0 };
  Object.assign(globalThis, { seen });
  const watch = (type: string, use: (entry: PerformanceEntry) => void) =>
    new PerformanceObserver((list) => list.getEntries().forEach(use)).observe({ type, buffered: true });
  watch('paint', (entry) => {
    if (entry.name === 'first-contentful-paint') seen.fcp = entry.startTime;
  });
  watch('largest-contentful-paint', (entry) => (seen.lcp = entry.startTime));
  watch('longtask', (entry) => {
    seen.longTaskEnd = Math.max(seen.longTaskEnd, entry.startTime + entry.duration);
    // Shorter tasks delay nobody.
    seen.blocking += entry.duration - 50;
  });
  watch('resource', (entry) => {
    const { initiatorType, responseEnd, name } = entry as PerformanceResourceTiming;
    if (/\.(js|css)$/.test(name)) seen.lastScriptEnd = Math.max(seen.lastScriptEnd, responseEnd);
    // A stream never ends, and repeated looks don't delay anything.
    if (initiatorType !== 'fetch' && initiatorType !== 'xmlhttprequest')
      seen.lastLoadEnd = Math.max(seen.lastLoadEnd, responseEnd);
  });
}

async function slowDown(devtools: CDPSession): Promise<void> {
  const bytesPerSecond = (PROFILE.megabitsPerSecond * 1_000_000) / 8;
  await devtools.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: PROFILE.latencyMs,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  });
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: PROFILE.cpuSlowdown });
}

/** The result grows while the page loads. */
async function countBytes(devtools: CDPSession): Promise<{ kind: string; size: number }[]> {
  const kinds = new Map<string, string>();
  const bytes: { kind: string; size: number }[] = [];
  await devtools.send('Network.enable');
  devtools.on('Network.responseReceived', ({ requestId, response, type }) => {
    kinds.set(requestId, kindOf(new URL(response.url), type));
  });
  devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const kind = kinds.get(requestId);
    if (kind) bytes.push({ kind, size: encodedDataLength });
  });
  return bytes;
}

function kindOf({ pathname }: URL, type: string): string {
  if (type === 'Document') return 'html';
  if (pathname.endsWith('.css')) return 'css';
  if (pathname.endsWith('.js')) return 'js';
  if (pathname.startsWith('/api/')) return 'api';
  return type === 'Image' && pathname.startsWith('/pictures/') ? 'pictures' : 'other';
}

/** The run with the median time to interactive. */
function middle(all: Figures[]): Figures {
  const sorted = all.toSorted((one, other) => one.timeToInteractiveMs - other.timeToInteractiveMs);
  return sorted[Math.floor((sorted.length - 1) / 2)] as Figures;
}

function print(figures: Figures[], runs: number): void {
  const { megabitsPerSecond, latencyMs, cpuSlowdown } = PROFILE;
  console.log(
    `A first visit over ${megabitsPerSecond} Mbit/s with ${latencyMs} ms latency on a processor ${cpuSlowdown} × slower; ` +
      `the median of ${runs}.\n`,
  );
  const kilobytes = (bytes: number) => (bytes / 1000).toFixed(1);
  const rows: [string, (one: Figures) => string][] = [
    ['html, KB', ({ bytes }) => kilobytes(bytes.html)],
    ['css, KB', ({ bytes }) => kilobytes(bytes.css)],
    ['js, KB', ({ bytes }) => kilobytes(bytes.js)],
    ['api, KB', ({ bytes }) => kilobytes(bytes.api)],
    ['pictures, KB', ({ bytes }) => kilobytes(bytes.pictures)],
    ['other, KB', ({ bytes }) => kilobytes(bytes.other)],
    ['all, KB', ({ bytes }) => kilobytes(bytes.total)],
    ['requests', ({ requests }) => String(requests)],
    ['first contentful paint, ms', (one) => String(one.firstContentfulPaintMs)],
    ['largest contentful paint, ms', (one) => String(one.largestContentfulPaintMs)],
    ['time to interactive, ms', (one) => String(one.timeToInteractiveMs)],
    ['blocked in all, ms', (one) => String(one.totalBlockingMs)],
  ];
  console.log(['', ...figures.map(({ page }) => page)].map(cell).join(''));
  for (const [name, value] of rows) console.log([name, ...figures.map(value)].map(cell).join(''));
}

function cell(text: string, at: number): string {
  return at === 0 ? text.padEnd(30) : text.padStart(14);
}
