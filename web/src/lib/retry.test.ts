import { expect, test } from 'vitest';
import { delayMs } from './retry';

test('waits grow up to a limit, and are never shorter than the shop asks for', () => {
  expect([1, 2, 3, 4, 5, 6, 20].map((tries) => delayMs(tries, undefined, 0))).toEqual([
    500, 1000, 2000, 4000, 8000, 15000, 15000,
  ]);
  expect(delayMs(1, 30, 0)).toBe(30_000);
  expect(delayMs(6, 1, 0)).toBe(15_000);
});

test('a crowd does not come back all at once', () => {
  expect(delayMs(1, undefined, 0.999)).toBeCloseTo(2_500, -1);
  expect(delayMs(1, 1, 0.999)).toBeCloseTo(3_000, -1);
  expect(delayMs(3, undefined, 0.999)).toBeCloseTo(4_000, -1);
  expect(delayMs(9, undefined, 0.999)).toBeCloseTo(30_000, -2);
});
