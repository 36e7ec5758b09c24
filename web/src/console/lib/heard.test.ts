import { expect, it } from 'vitest';
import { heardPercent, heardSeconds } from './heard';

const steps = (of: (value: number) => number, most: number) => [
  ...new Set(Array.from({ length: most + 1 }, (_, value) => of(value))),
];

it('reads out a step now and then', () => {
  expect(steps(heardSeconds, 100)).toEqual([0, 30, 60, 90]);
  expect(steps(heardPercent, 100)).toEqual([0, 25, 50, 75, 100]);
});
