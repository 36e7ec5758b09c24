// A button that is pressed may disappear, and the focus with it. People who use the keyboard go on near it, not at the
// beginning of the page.
import { tick } from 'svelte';

/** After the page has changed: to this element, if nothing has the focus any more. */
export async function keepFocus(to: () => HTMLElement | undefined): Promise<void> {
  await tick();
  const focused = document.activeElement;
  if (!focused || focused === document.body) to()?.focus({ preventScroll: true });
}
