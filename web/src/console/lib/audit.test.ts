import { expect, it } from 'vitest';
import en from '../words/en';
import zh from '../words/zh';
import { kindOf, type DifferenceKind } from './audit';

// As crates/records/src/audit says them.
const SENTENCES: [DifferenceKind, string][] = [
  ['lost', 'Order 1-2 is lost: the ledger accepted it, but it is not in the records.'],
  ['lost', 'Decision 9 changes order 1-2, which the records do not have.'],
  ['lost', 'The ledger sells sale 1, which the records do not have.'],
  ['lost', 'Sale 1 has no stock row in the records.'],
  ['extra', 'The records have order 1-2, which the ledger does not know.'],
  ['extra', 'Sale 1 is published in the records, but the ledger does not know it.'],
  ['extra', 'The stock log moves units of sale 1, which the ledger does not know.'],
  ['duplicated', 'Order 1-2 is the second one for the same idempotency key of its buyer.'],
  ['duplicated', 'Order 1-2 is held 2 times in the stock log.'],
  ['duplicated', 'Decision 9 holds order 1-2, which the records have already.'],
  ['oversold', 'Sale 1 is oversold by 3 units, by the orders in the ledger.'],
  ['over_limit', 'Buyer ann has 3 units of sale 1, but the limit is 1.'],
  ['waitlist', 'Buyer ann waits for sale 1 in the ledger, but not in the records.'],
  ['waitlist', 'Number 4 on the waitlist of sale 1 is ann for 1 units since 5 ms in the ledger, but bob …'],
  ['dead_letter', 'Decision 9 is dead letter 7 and not settled: order 1-2 is in the records already.'],
  ['dead_letter', '2 decisions of stream 5, which the ledger does not have, are dead letters.'],
  ['decisions', 'The records have settled decision 12, but the ledger ends with 9.'],
  ['decisions', 'Decisions 3 to 5 are neither settled nor in the feed.'],
  ['order', 'The payment deadline of order 1-2 is 5 ms in the ledger, but 6 ms in the records.'],
  ['order', 'The idempotency key of order 1-2 is another in the records than in the ledger.'],
  ['order', 'Decision 9 needs order 1-2 to be held, but it is paid in the records.'],
  [
    'order',
    'Order 1-2 is held with 1 units in the ledger, but the stock log has 0 held and 0 paid units of it.',
  ],
  ['order', 'The ledger has order 1-2 in the place of number 3 of sale 1.'],
  ['terms', 'Sale 1 is open in the ledger, but closed in its stock row.'],
  ['terms', 'The terms of sale 1 in its stock row are not those of the ledger.'],
  ['counts', 'The ledger’s counts of sale 1 do not add up: 9 in total.'],
  ['counts', 'The stock row of sale 1 says 9 in total; the ledger has 8 in total.'],
  ['counts', 'The stock log of sale 1 adds up to 9; the ledger has 8.'],
  ['counts', 'The orders of sale 1, which is over, add up to 1 held and 2 paid units; its row says 3.'],
  ['counts', 'The ledger counts 1 held and 2 paid units of sale 1, but its orders add up to 1 and 1.'],
  ['other', 'An order can’t be read: the state is "gone".'],
];

it.each(SENTENCES)('knows what kind of difference it is: %s', (kind, sentence) => {
  expect(kindOf(sentence)).toBe(kind);
});

it('has words for every kind, in both languages', () => {
  for (const [kind] of SENTENCES)
    for (const words of [en, zh]) expect(words.audit.kinds[kind], kind).toBeTruthy();
});
