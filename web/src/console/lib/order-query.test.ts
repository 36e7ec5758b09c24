import { expect, it } from 'vitest';
import { csvAddress, filterOf, pageAddress, queryOf } from './order-query';

const filter = (query: string) => filterOf(new URLSearchParams(query));

it('reads the filter from the address, and ignores unknown states', () => {
  expect(filter('q=+abc+&sale=s1&state=held')).toEqual({ q: 'abc', sale: 's1', state: 'held' });
  expect(filter('state=lost&page=3')).toEqual({ q: '', sale: '', state: '' });
});

it('exports exactly what is filtered', () => {
  expect(csvAddress(filter(''))).toBe('/api/v1/admin/orders.csv');
  expect(csvAddress({ q: 'account:7 & co', sale: 's1', state: 'paid' })).toBe(
    '/api/v1/admin/orders.csv?q=account%3A7+%26+co&sale=s1&state=paid',
  );
  expect(pageAddress({ q: '', sale: '', state: 'paid' })).toBe('/console/orders?state=paid');
});

it('cleans up a phone as people write it, and leaves ids alone', () => {
  expect(queryOf({ q: '+86 138 (0013) 8000', sale: '', state: '' })).toEqual({ q: '+8613800138000' });
  expect(queryOf({ q: '53erv2zjdpknk-12', sale: '', state: '' })).toEqual({ q: '53erv2zjdpknk-12' });
});
