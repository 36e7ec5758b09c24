// A proof of work: an answer such that the SHA-256 of salt and answer begins with enough zero bits.
import { sha256 } from '@noble/hashes/sha2.js';

export function hasZeroBits(hash: Uint8Array, bits: number): boolean {
  const bytes = bits >> 3;
  for (let at = 0; at < bytes; at += 1) if (hash[at] !== 0) return false;
  return bits % 8 === 0 || (hash[bytes] as number) >> (8 - (bits % 8)) === 0;
}

/** Tries `count` numbers, starting with `from`. */
export function search(
  salt: Uint8Array,
  difficulty: number,
  from: number,
  count: number,
): string | undefined {
  const salted = sha256.create().update(salt);
  const encoder = new TextEncoder();
  const digits = new Uint8Array(16);
  for (let number = from; number < from + count; number += 1) {
    const text = String(number);
    const { written } = encoder.encodeInto(text, digits);
    const hash = salted.clone().update(digits.subarray(0, written)).digest();
    if (hasZeroBits(hash, difficulty)) return text;
  }
  return undefined;
}

/** The share of the expected work done after this many tries; never quite 1, since luck may run out. */
export function partDone(tries: number, difficulty: number): number {
  return 1 - Math.exp(-tries / 2 ** difficulty);
}
