import { expect, it } from 'vitest';
import type { Cause, DeadLetter } from '../../api/schema';
import en from '../words/en';
import { causeInWords, decisionInWords } from './letters';

const letter = (event: DeadLetter['event'] | 'doubled', order_id: string | null = null): DeadLetter => ({
  id: '3',
  event: event as DeadLetter['event'],
  sale_id: 's1',
  order_id,
  position: 12,
  cause: 'unknown',
  reason: '',
  tries: 1,
  decided_at: '2026-11-11T10:00:00Z',
  created_at: '2026-11-11T10:00:00Z',
});

it('names the decision, also if the server is newer than the page', () => {
  expect(decisionInWords(en, letter('paid', 's1-7'))).toBe('Order s1-7 was paid');
  expect(decisionInWords(en, letter('closed'))).toBe('Sale s1 was closed');
  expect(decisionInWords(en, letter('doubled'))).toBe('“doubled” was decided in sale s1');
});

it('shows an unknown cause in the server’s words', () => {
  const { causes } = en.deadLetters;
  expect(causeInWords(causes, 'sale_missing')).toBe(causes.sale_missing);
  expect(causeInWords(causes, 'bad_weather' as Cause)).toBe(causes.unknown);
});
