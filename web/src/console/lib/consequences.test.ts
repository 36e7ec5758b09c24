import { describe, expect, it } from 'vitest';
import en from '../words/en';
import zh from '../words/zh';
import { actionsIn, consequences, type Action } from './consequences';
import { aSale, someStats } from './samples';
import { consequenceInWords } from './words-of';

const NOW = Date.parse('2026-11-11T10:00:00Z');

function sentences(
  action: Action,
  { sale = aSale({ state: 'open' }), stats = someStats(), more = 0, words = en } = {},
): string[] {
  return consequences(action, sale, stats, NOW, more).map((it) => consequenceInWords(words, it, (at) => at));
}

describe('a confirmation states the consequences in figures', () => {
  it('of closing', () => {
    expect(sentences('close', { stats: someStats({ held: 42, available: 38, waiting: 1200 }) })).toEqual([
      'No more orders are accepted.',
      '42 units that are held can still be paid.',
      '1,200 people in the waiting room are sent away.',
      '38 units stay unsold.',
      'This can’t be undone.',
    ]);
    expect(sentences('close', { stats: someStats({ held: 0, available: 0 }) })).toEqual([
      'No more orders are accepted.',
      'No unit is held at the moment.',
      'This can’t be undone.',
    ]);
  });

  it('of closing, also for people on the waitlist', () => {
    const soldOut = { held: 2, available: 0, state: 'sold_out' } as const;
    expect(sentences('close', { stats: someStats({ ...soldOut, waitlist: 1200 }) })).toEqual([
      'No more orders are accepted.',
      '2 units that are held can still be paid.',
      '1,200 people on the waitlist are sent away.',
      'This can’t be undone.',
    ]);
    expect(sentences('close', { stats: someStats({ ...soldOut, waitlist: 1 }) })).toContain(
      '1 person on the waitlist is sent away.',
    );
    expect(sentences('close', { stats: someStats({ ...soldOut, waitlist: null }) })).toContain(
      'Everyone on the waitlist is sent away.',
    );
    expect(sentences('close', { stats: someStats(soldOut) }).join(' ')).not.toContain('waitlist');
  });

  it('of resuming, when free units go to the waitlist first', () => {
    const paused = { state: 'paused', available: 5 } as const;
    expect(sentences('resume', { stats: someStats({ ...paused, waitlist: 3 }) })).toEqual([
      '5 units are free. 3 people on the waitlist are offered them first, in order; the rest is on sale again at once, if the window is open.',
    ]);
    expect(sentences('resume', { stats: someStats({ ...paused, available: 1, waitlist: 1 }) })).toEqual([
      '1 unit is free. 1 person on the waitlist is offered it first, in order; the rest is on sale again at once, if the window is open.',
    ]);
    expect(sentences('resume', { stats: someStats({ ...paused, waitlist: null }) })).toEqual([
      '5 units are free. Everyone on the waitlist is offered them first, in order; the rest is on sale again at once, if the window is open.',
    ]);
    expect(sentences('resume', { stats: someStats(paused) })).toEqual([
      '5 units are on sale again at once, if the window is open.',
    ]);
    expect(sentences('resume', { stats: someStats({ state: 'paused', available: 0, waitlist: 3 }) })).toEqual(
      ['No unit is left, so it will show as sold out.'],
    );
  });

  it('of pausing and resuming', () => {
    expect(sentences('pause', { stats: someStats({ held: 1, waiting: 3 }) })).toEqual([
      'Nobody can order until you resume it.',
      '1 unit that is held can still be paid.',
      '3 people keep their places in the waiting room.',
    ]);
    expect(sentences('resume', { stats: someStats({ available: 0 }) })).toEqual([
      'No unit is left, so it will show as sold out.',
    ]);
  });

  it('of restocking, also for people who wait', () => {
    expect(sentences('restock', { more: 50 })).toEqual([
      '50 units more, 150 in total.',
      'This can’t be undone.',
    ]);
    const first = 'People on the waitlist get them first, in order.';
    expect(sentences('restock', { more: 1, stats: someStats({ available: 0 }) })).toContain(first);
    // Units came back during a pause, and people wait for its end.
    const paused = { state: 'paused', available: 5 } as const;
    expect(sentences('restock', { more: 1, stats: someStats({ ...paused, waitlist: 3 }) })).toContain(first);
    expect(sentences('restock', { more: 1, stats: someStats({ ...paused, waitlist: null }) })).toContain(
      first,
    );
    expect(sentences('restock', { more: 1, stats: someStats(paused) })).not.toContain(first);
  });

  it('of publishing, now or later', () => {
    const later = aSale({ opens_at: '2026-11-11T12:00:00Z' });
    expect(consequences('publish', later, undefined, NOW)[0]).toEqual({
      says: 'opens_later',
      units: 100,
      at: '2026-11-11T12:00:00Z',
    });
    const over = aSale({ opens_at: '2026-11-11T09:00:00Z' });
    expect(consequences('publish', over, undefined, NOW)[0]).toEqual({ says: 'opens_at_once', units: 100 });
  });

  it('without unknown figures', () => {
    const says = consequences('close', aSale({ state: 'open' }), undefined, NOW).map((it) => it.says);
    expect(says).toContain('what_is_held_can_be_paid');
    expect(says).not.toContain('nothing_is_held');
    expect(says).not.toContain('waitlist_is_sent_away');
    expect(consequences('close', aSale({ state: 'sold_out' }), undefined, NOW)).toContainEqual({
      says: 'waitlist_is_sent_away',
      people: undefined,
    });
    const paused = aSale({ state: 'paused', stock: { total: 100, available: 5 } });
    expect(consequences('resume', paused, undefined, NOW)).toEqual([
      { says: 'offered_then_on_sale', units: 5, people: undefined },
    ]);
  });

  it('in Chinese, too', () => {
    const words = zh as typeof en;
    expect(sentences('close', { words })).toContain('42 件待付款的仍可付款。');
    const stats = someStats({ state: 'paused', available: 5, waitlist: 3 });
    expect(sentences('close', { words, stats })).toContain('候补名单上的 3 人将被移出。');
    expect(sentences('resume', { words, stats })).toEqual([
      '有 5 件可售：先按顺序提供给候补名单上的 3 人；只要在开售时间内，剩下的立即恢复销售。',
    ]);
    const unknown = someStats({ state: 'sold_out', available: 0, waitlist: null });
    expect(sentences('close', { words, stats: unknown })).toContain('候补名单上的人将被移出。');
  });
});

it('offers only what a state allows', () => {
  expect(actionsIn('draft')).toEqual(['publish']);
  expect(actionsIn('open')).not.toContain('resume');
  expect(actionsIn('paused')).toContain('resume');
  expect(actionsIn('closed')).toEqual([]);
});
