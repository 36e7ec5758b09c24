import { expect, it } from 'vitest';
import type { DeadLetter } from '../../api/schema';
import en from '../words/en';
import { decisionInWords, remedyOf } from './letters';

const letter = (event: string, order_id: string | null = null): DeadLetter => ({
  id: '3',
  event,
  sale_id: 's1',
  order_id,
  position: 12,
  reason: '',
  tries: 1,
  decided_at: '2026-11-11T10:00:00Z',
  created_at: '2026-11-11T10:00:00Z',
});

it('says what was decided, also if the server is newer than the page', () => {
  expect(decisionInWords(en, letter('paid', 's1-7'))).toBe('Order s1-7 was paid');
  expect(decisionInWords(en, letter('closed'))).toBe('Sale s1 was closed');
  expect(decisionInWords(en, letter('doubled'))).toBe('“doubled” was decided in sale s1');
});

it('finds a remedy for the reasons that settlement gives', () => {
  expect(remedyOf('the records have no sale s1')).toBe('missing_sale');
  expect(remedyOf('an earlier decision on order s1-7 is a dead letter')).toBe('earlier');
  expect(remedyOf('order s1-7 was to be paid, but it is cancelled and not held')).toBe('order_differs');
  expect(remedyOf('SQL says no')).toBe('other');
});
