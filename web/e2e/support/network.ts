// A slow network.
import type { Page, Route } from 'playwright-core';

/** Holds requests back until they are released. */
export async function keepBack(
  page: Page,
  method: string,
  path: RegExp,
): Promise<{ first: Promise<Route>; letGo: () => Promise<void> }> {
  let letGo = () => {};
  const gate = new Promise<void>((open) => (letGo = open));
  let arrived: (route: Route) => void = () => {};
  const first = new Promise<Route>((resolve) => (arrived = resolve));
  await page.route(path, async (route) => {
    if (route.request().method() !== method) return route.continue();
    arrived(route);
    await gate;
    // The page may have been closed meanwhile.
    await route.continue().catch(() => {});
  });
  return {
    first,
    letGo: async () => {
      letGo();
      await page.unroute(path);
    },
  };
}
