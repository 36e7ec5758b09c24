// Checks that every page has to pass.
import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Fails if axe finds a serious or critical violation on the page as it is now. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const run = (window as unknown as { axe: { run: (options: unknown) => Promise<AxeResults> } }).axe.run;
    // Content that axe would have to fetch is not checked.
    const { violations } = await run({ preload: false, resultTypes: ['violations'] });
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, help, nodes }) =>
        nodes.map(
          ({ target, failureSummary }) => `${id}: ${help}\n  ${target.join(' ')}\n  ${failureSummary ?? ''}`,
        ),
      );
  });
  const scheme = (await isDark(page)) ? 'dark' : 'light';
  expect(found, `axe on ${new URL(page.url()).pathname} (${scheme})`).toEqual([]);
}

/** Fails if something is wider than the window. */
export async function expectNoSidewaysScrolling(page: Page): Promise<void> {
  const tooWide = await page.evaluate(() => {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    // An element that scrolls within itself makes nothing else wide.
    const isContained = (element: Element): boolean => {
      const around = element.parentElement;
      if (!around || around === document.body) return false;
      return getComputedStyle(around).overflowX !== 'visible' || isContained(around);
    };
    const wide = [...document.querySelectorAll('body *')].filter(
      (element) => element.getBoundingClientRect().right > root.clientWidth + 0.5 && !isContained(element),
    );
    return wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120));
  });
  expect(tooWide, `wider than the window on ${new URL(page.url()).pathname}`).toEqual([]);
}

/** Fails if something moves although the visitor asked for reduced motion. */
export async function expectStill(page: Page): Promise<void> {
  const moving = await page.evaluate(() =>
    document
      .getAnimations()
      .filter((animation) => animation.playState === 'running')
      .map((animation) => {
        const target = (animation.effect as KeyframeEffect | null)?.target;
        return target?.outerHTML.slice(0, 120) ?? animation.id;
      }),
  );
  expect(moving, `movement on ${new URL(page.url()).pathname}`).toEqual([]);
}

/** Controls have to be large enough for a thumb, except links within a sentence. */
export async function expectLargeTargets(page: Page, least = 44): Promise<void> {
  const small = await page.evaluate((least) => {
    const targets = document.querySelectorAll<HTMLElement>('button, a.button, nav a, input, select, summary');
    return [...targets]
      .filter((target) => target.checkVisibility() && !target.matches('.visually-hidden, [type=checkbox]'))
      .filter((target) => target.getBoundingClientRect().height < least - 0.5)
      .map((target) => `${target.getBoundingClientRect().height} px: ${target.outerHTML.slice(0, 120)}`);
  }, least);
  expect(small, `too small for a thumb on ${new URL(page.url()).pathname}`).toEqual([]);
}

export function isDark(page: Page): Promise<boolean> {
  return page.evaluate(() => {
    const [red = 0, green = 0, blue = 0] = (
      getComputedStyle(document.documentElement).backgroundColor.match(/[\d.]+/g) ?? []
    ).map(Number);
    return red + green + blue < 300;
  });
}

/** Everything that a script of the page can read and that looks like one of our tokens. */
export async function tokensInReach(page: Page): Promise<string[]> {
  const kept = await page.evaluate(() => [
    document.cookie,
    ...Object.values({ ...localStorage }),
    ...Object.values({ ...sessionStorage }),
  ]);
  return (kept as string[]).filter((text) => /pst_|eyJ[\w-]+\./.test(text));
}
