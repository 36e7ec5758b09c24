import { expect, test, vi } from 'vitest';
import shopEn from '../shop/words/en';
import shopZh from '../shop/words/zh';
import en from './en';
import { i18n, inWords, preferred, speak } from './index.svelte';
import zh from './zh';

test('the language is the chosen one, else the browser’s, else English', () => {
  expect(preferred(null, ['zh-TW', 'en'])).toBe('zh');
  expect(preferred(null, ['fr', 'en-GB', 'zh'])).toBe('en');
  expect(preferred('en', ['zh-CN'])).toBe('en');
  expect(preferred('klingon', ['zh-CN'])).toBe('zh');
  expect(preferred(null, ['fr'])).toBe('en');
  expect(preferred(null, [])).toBe('en');
});

test('the choice is kept, and the page says its language', async () => {
  await speak('zh');
  expect(localStorage.getItem('penstock.language')).toBe('zh');
  expect(document.documentElement.lang).toBe('zh-CN');
  expect(i18n.common.signIn).toBe('登录');
  await speak('en');
  expect(document.documentElement.lang).toBe('en');
});

test('the language changes also if nothing can be stored', async () => {
  const kept = vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new DOMException('denied', 'SecurityError');
  });
  await speak('zh');
  expect(i18n.language).toBe('zh');
  kept.mockRestore();
  await speak('en');
});

/** All texts, with their keys. */
function texts(words: object, at = ''): [string, string][] {
  return Object.entries(words).flatMap(([name, value]) => {
    const here = `${at}.${name}`;
    if (typeof value === 'string') return [[here, value] as [string, string]];
    if (typeof value === 'function')
      return [[here, (value as (...a: string[]) => string)('7', '8')] as [string, string]];
    return texts(value as object, here);
  });
}

test.each([
  ['common words and errors', en, zh],
  ['the shop', shopEn, shopZh],
])('%s has no empty text, and Chinese is Chinese', (_, english, chinese) => {
  const theirs = new Map(texts(chinese));
  for (const [at, text] of texts(english)) {
    expect(text.trim(), at).not.toBe('');
    const other = theirs.get(at) ?? '';
    expect(other.trim(), at).not.toBe('');
    const mayBeSame = /brand|hold\.units|price\.off|room\.said/.test(at);
    if (!mayBeSame) expect(other, at).toMatch(/[\u4e00-\u9fff]/);
  }
});

test('a failure is shown in words, an unknown code too', async () => {
  await speak('en', false);
  const failure = {
    code: 'sold_out',
    status: 409,
    detail: '',
    fields: {},
    retryAfterSeconds: undefined,
  } as const;
  expect(inWords(failure).says).toContain('Sold out');
  expect(inWords({ ...failure, code: 'of_tomorrow' as 'sold_out' }).says).toBe(en.errors.internal.says);
});
