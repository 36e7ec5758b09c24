// What had the focus may be gone with what was done. Who uses the keyboard goes on where that was, not at the page's beginning.
import { tick } from 'svelte';

/** After the page has changed: to this element, if nothing has the focus any more. */
export async function keepFocus(to: () => HTMLElement | undefined): Promise<void> {
  await tick();
  const focused = document.activeElement;
  if (!focused || focused === document.body) to()?.focus({ preventScroll: true });
}
