import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { hasZeroBits, partDone, search } from './pow';

const salt = (text: string) => new TextEncoder().encode(text);

describe('a proof of work', () => {
  test('matches the server’s definition', () => {
    for (const difficulty of [1, 7, 8, 9, 12]) {
      const answer = search(salt('penstock'), difficulty, 0, 1_000_000);
      const hash = createHash('sha256').update(`penstock${answer}`).digest();
      const bits = [...hash].map((byte) => byte.toString(2).padStart(8, '0')).join('');
      expect(bits.startsWith('0'.repeat(difficulty))).toBe(true);
    }
  });

  test('is the first number that fits', () => {
    // By `printf 'penstock%d' n | sha256sum`.
    const first = (difficulty: number) => {
      for (let number = 0; ; number += 1) {
        const hash = createHash('sha256').update(`penstock${number}`).digest();
        if (hash.readUInt32BE() >>> (32 - difficulty) === 0) return String(number);
      }
    };
    expect(search(salt('penstock'), 10, 0, 100_000)).toBe(first(10));
  });

  test('continues where the last search ended', () => {
    const answer = Number(search(salt('x'), 10, 0, 100_000));
    expect(search(salt('x'), 10, 0, answer)).toBeUndefined();
    expect(search(salt('x'), 10, answer, 1)).toBe(String(answer));
  });

  test('counts zero bits across bytes', () => {
    const hash = Uint8Array.of(0, 0b0001_0000, 255);
    expect(hasZeroBits(hash, 11)).toBe(true);
    expect(hasZeroBits(hash, 12)).toBe(false);
    expect(hasZeroBits(hash, 0)).toBe(true);
    expect(hasZeroBits(hash, 8)).toBe(true);
  });

  test('shows progress that grows and never ends before the work does', () => {
    expect(partDone(0, 14)).toBe(0);
    expect(partDone(2 ** 14, 14)).toBeCloseTo(0.63, 2);
    expect(partDone(2 ** 17, 14)).toBeLessThan(1);
  });
});
