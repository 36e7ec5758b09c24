// A pressed button may disappear, and the focus with it. Keyboard users continue close to it, not at the top
// of the page.
import { tick } from 'svelte';

/** After the page has changed: moves the focus to this element, if nothing has it. */
export async function keepFocus(to: () => HTMLElement | undefined): Promise<void> {
  await tick();
  const focused = document.activeElement;
  if (!focused || focused === document.body) to()?.focus({ preventScroll: true });
}
