// The words of the shop in the current language.
import type { Language } from '../i18n/index.svelte';
import type { Words } from '../i18n/types';
import type en from './words/en';

let words = $state.raw<Words<typeof en>>();

export async function loadWords(language: Language): Promise<void> {
  words = (language === 'zh' ? await import('./words/zh') : await import('./words/en')).default;
}

/** The words, for use in a component: `w().buy`. */
export function w(): Words<typeof en> {
  return words as Words<typeof en>;
}
