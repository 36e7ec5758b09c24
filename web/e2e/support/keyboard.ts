// A visitor who uses only the keyboard.
import type { Locator, Page } from 'playwright-core';

const MOST_STOPS = 80;

/** Presses Tab until the element has a visible focus. */
export async function tabTo(page: Page, wanted: Locator): Promise<void> {
  await wanted.first().waitFor();
  for (let stops = 0; stops < MOST_STOPS; stops += 1) {
    const isThere = await wanted.first().evaluate((element) => element === document.activeElement);
    if (isThere) {
      const shows = await wanted.first().evaluate((element) => {
        // A card shows the focus around itself, by its link's `::after`.
        const shown = [getComputedStyle(element), getComputedStyle(element, '::after')];
        return shown.some(({ outlineStyle, boxShadow }) => outlineStyle !== 'none' || boxShadow !== 'none');
      });
      if (!shows) throw new Error(`Nobody sees that ${wanted} has the focus`);
      return;
    }
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not lead to ${wanted}`);
}

export async function pressOn(page: Page, wanted: Locator, key = 'Enter'): Promise<void> {
  await tabTo(page, wanted);
  await page.keyboard.press(key);
}
