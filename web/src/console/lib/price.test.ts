import { expect, it } from 'vitest';
import { CURRENCIES, discountPercent, isCurrency, minorUnits, tidyAmount } from './price';

const cny = (amount: string) => ({ amount, currency: 'CNY' });

it('reads amounts as the server does', () => {
  expect(minorUnits(cny('1999.00'))).toBe(199_900n);
  expect(minorUnits(cny('5'))).toBe(500n);
  expect(minorUnits({ amount: '500', currency: 'JPY' })).toBe(500n);
  expect(minorUnits({ amount: '1.234', currency: 'KWD' })).toBe(1234n);
  for (const amount of ['', '.', '1.', '.5', '-1', '1e3', '1.001', ' 1', '99999999999999999999']) {
    expect(minorUnits(cny(amount)), amount).toBeUndefined();
  }
});

it('understands how people write amounts', () => {
  expect(tidyAmount(' 1,999.00 ')).toBe('1999.00');
  expect(tidyAmount('1 999,50')).toBe('1999.50');
  expect(tidyAmount('1,999')).toBe('1999');
});

it('computes the discount, and none between two currencies', () => {
  expect(discountPercent(cny('1999.00'), cny('3999.00'))).toBe(50);
  expect(discountPercent(cny('4000'), cny('4000'))).toBe(0);
  expect(discountPercent(cny('1'), { amount: '2', currency: 'EUR' })).toBeUndefined();
});

it('offers each currency in use once, and accepts no other', () => {
  expect(CURRENCIES[0]).toBe('CNY');
  expect(new Set(CURRENCIES).size).toBe(CURRENCIES.length);
  for (const code of CURRENCIES) expect(isCurrency(code), code).toBe(true);
  for (const code of ['', 'cny', 'ABC', 'XXX', 'DEM', 'CNYX']) expect(isCurrency(code), code).toBe(false);
});
