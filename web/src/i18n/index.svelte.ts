// The language: the browser's, unless the visitor has chosen. Only the words of one language are loaded.
import type { Failure } from '../api/client';
import type { Common, Errors } from './types';

export const LANGUAGES = { en: 'English', zh: '中文' } as const;
export type Language = keyof typeof LANGUAGES;

const KEPT_AT = 'penstock.language';

let language = $state<Language>('en');
/** The visitor's kind of English: days and months differ in order. */
const english = navigator.languages.find((tag) => /^en(-|$)/i.test(tag)) ?? 'en';
let common = $state.raw<Common>();
let errors = $state.raw<Errors>();
/** Loads the words of the shop or of the console when the language changes. */
let loadMore: (language: Language) => Promise<void> = async () => {};

export function preferred(kept: string | null, wanted: readonly string[]): Language {
  const known = [kept ?? '', ...wanted].map((tag) => tag.toLowerCase().split('-')[0]);
  return (known.find((tag) => tag === 'en' || tag === 'zh') as Language | undefined) ?? 'en';
}

/** Chooses the language and loads its words before the page is shown. */
export async function startLanguage(load: (language: Language) => Promise<void>): Promise<void> {
  loadMore = load;
  await speak(preferred(remembered(), navigator.languages), false);
}

export async function speak(wanted: Language, keep = true): Promise<void> {
  const words = wanted === 'zh' ? import('./zh') : import('./en');
  const [{ default: loaded }] = await Promise.all([words, loadMore(wanted)]);
  common = loaded.common;
  errors = loaded.errors;
  language = wanted;
  document.documentElement.lang = wanted === 'zh' ? 'zh-CN' : 'en';
  if (keep) remember(wanted);
}

function remembered(): string | null {
  try {
    return localStorage.getItem(KEPT_AT);
  } catch {
    return null;
  }
}

function remember(wanted: Language): void {
  try {
    localStorage.setItem(KEPT_AT, wanted);
  } catch {
    // The choice is made again next time.
  }
}

export const i18n = {
  get language(): Language {
    return language;
  },
  /** For `Intl`. */
  get locale(): string {
    return language === 'zh' ? 'zh-CN' : english;
  },
  get common(): Common {
    return common as Common;
  },
};

/** What happened, and what to do now. */
export function inWords(failure: Pick<Failure, 'code'>): { says: string; todo: string } {
  return (errors as Errors)[failure.code] ?? (errors as Errors).internal;
}
