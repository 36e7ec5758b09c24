import { expect, it } from 'vitest';
import errors from '../../i18n/errors.zh';
import en from './en';

const texts = import.meta.glob<string>('./zh/*.ts', { query: '?raw', import: 'default', eager: true });

it('counts one unit as one', () => {
  const say = en.sale.consequences;
  expect(say.opens_at_once(1)).toBe('1 unit is on sale at once.');
  expect(say.opens_at_once(2)).toBe('2 units are on sale at once.');
  expect(say.opens_later(1, 'Monday')).toBe('1 unit goes on sale on Monday.');
});

it('addresses merchants the same way everywhere, and uses one term for the end of a sale', () => {
  expect(Object.keys(texts).length).toBeGreaterThan(4);
  for (const [file, text] of Object.entries(texts)) {
    expect(text, file).not.toMatch(/你/);
    expect(text, file).not.toMatch(/关闭/);
  }
  expect(errors.already_published.todo).toContain('结束');
});
