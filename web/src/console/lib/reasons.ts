// Why claims are refused, in words. An unknown code is shown as it is.
import type { ConsoleWords } from './words-of';

export function reason(words: ConsoleWords, code: string): string {
  return (words.reasons as Record<string, string>)[code] ?? code.replaceAll('_', ' ');
}

/** The most frequent first; all after the first `most` are added up. */
export function mostFrequent(
  counts: Record<string, number>,
  most: number,
): { codes: [code: string, count: number][]; others: number } {
  const sorted = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .sort(([code, count], [otherCode, otherCount]) => otherCount - count || code.localeCompare(otherCode));
  const others = sorted.slice(most).reduce((sum, [, count]) => sum + count, 0);
  return { codes: sorted.slice(0, most), others };
}
