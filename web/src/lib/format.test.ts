import { beforeAll, describe, expect, test } from 'vitest';
import { speak } from '../i18n/index.svelte';
import { countdown, money, moment, number, span, times } from './format';

beforeAll(() => speak('en', false));

describe('money', () => {
  test('is written without cents where there are none', () => {
    expect(money({ amount: '1999.00', currency: 'CNY' })).toBe('CN¥1,999');
    expect(money({ amount: '19.90', currency: 'USD' })).toBe('$19.90');
    expect(money({ amount: '500', currency: 'JPY' })).toBe('JP¥500');
  });

  test('never has the same sign for two currencies, nor one that means another in the other language', async () => {
    const currencies = ['CNY', 'JPY', 'USD', 'HKD', 'TWD', 'EUR', 'GBP', 'KRW'];
    const signs = () =>
      currencies.map((currency) => money({ amount: '7', currency }).replace(/[\d.\s]/g, ''));
    const english = signs();
    await speak('zh', false);
    const chinese = signs();
    await speak('en', false);
    expect(new Set(english).size).toBe(currencies.length);
    expect(new Set(chinese).size).toBe(currencies.length);
    // ¥ alone is read as yuan by some and as yen by others.
    expect([english[0], english[1]]).toEqual(['CN¥', 'JP¥']);
    expect([chinese[0], chinese[1]]).toEqual(['¥', 'JP¥']);
  });

  test('has all its digits', () => {
    expect(money({ amount: '92233720368547758.07', currency: 'USD' })).toBe('$92,233,720,368,547,758.07');
  });

  test('is multiplied to the last digit', () => {
    expect(times({ amount: '0.10', currency: 'USD' }, 3)).toEqual({ amount: '0.30', currency: 'USD' });
    expect(times({ amount: '19.99', currency: 'USD' }, 3).amount).toBe('59.97');
    expect(times({ amount: '500', currency: 'JPY' }, 2).amount).toBe('1000');
    expect(times({ amount: '1.250', currency: 'KWD' }, 2).amount).toBe('2.500');
  });
});

test('a countdown shows every second once, and nothing below zero', () => {
  expect(countdown(7_000)).toEqual({ days: 0, clock: '00:07' });
  expect(countdown(6_101)).toEqual({ days: 0, clock: '00:07' });
  expect(countdown(723_000)).toEqual({ days: 0, clock: '12:03' });
  expect(countdown(3 * 3_600_000)).toEqual({ days: 0, clock: '03:00:00' });
  expect(countdown(2 * 86_400_000 + 1_000)).toEqual({ days: 2, clock: '00:00:01' });
  expect(countdown(900_040)).toEqual({ days: 0, clock: '15:00' });
  expect(countdown(-5)).toEqual({ days: 0, clock: '00:00' });
});

test('a length of time is in its natural unit', () => {
  expect(span(45)).toBe('45 seconds');
  expect(span(900)).toBe('15 minutes');
  expect(span(7_200)).toBe('2 hours');
});

test('an agreed time names its time zone', async () => {
  const time = Date.parse('2026-11-11T02:00:00Z');
  const zone = /UTC|GMT|[A-Z]{3,4}/;
  expect(moment(time, 'long')).toMatch(zone);
  expect(moment(time, 'zoned')).toMatch(zone);
  expect(moment(time)).not.toMatch(/UTC|GMT/);
  await speak('zh', false);
  expect(moment(time, 'long')).toMatch(zone);
  await speak('en', false);
});

test('the language writes numbers and times', async () => {
  const time = new Date(2026, 0, 2, 15, 4).getTime();
  expect(number(1234567)).toBe('1,234,567');
  expect(moment(time)).toMatch(/Jan 2|2 Jan/);
  await speak('zh', false);
  expect(span(900)).toBe('15分钟');
  expect(moment(time)).toBe('1月2日 15:04');
  expect(money({ amount: '1999.00', currency: 'CNY' })).toBe('¥1,999');
  await speak('en', false);
});
