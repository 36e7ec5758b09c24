import { expect, test, vi } from 'vitest';
import { api } from '../api/client';
import { countries, loadCountries, named } from './countries.svelte';

const ANSWER = {
  default: 'CN',
  data: [
    { country: 'DE', calling_code: '49' },
    { country: 'CN', calling_code: '86' },
    { country: 'AT', calling_code: '43' },
  ],
};

test('countries are named and sorted in the language of the page', () => {
  const names = (locale: string) => named(ANSWER.data, locale).map(({ name }) => name);
  expect(names('en')).toEqual(['Austria +43', 'China +86', 'Germany +49']);
  expect(names('zh-CN')).toEqual(['奥地利 +43', '德国 +49', '中国 +86']);
  expect(named(ANSWER.data, 'en').map(({ value }) => value)).toEqual(['AT', 'CN', 'DE']);
});

test('they are loaded once, and again only after a failure', async () => {
  const asked = vi.spyOn(api, 'GET');
  const answer = (status: number, data?: unknown) =>
    asked.mockImplementation((() =>
      Promise.resolve({ data, error: {}, response: new Response(null, { status }) })) as never);
  answer(503);
  await loadCountries();
  expect(countries.all).toEqual([]);
  expect(countries.areAway).toBe(true);
  answer(200, ANSWER);
  await loadCountries();
  await loadCountries();
  expect(countries.all).toHaveLength(3);
  expect(countries.home).toBe('CN');
  expect(countries.areAway).toBe(false);
  expect(asked).toHaveBeenCalledTimes(2);
});
