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

describe('a confirmation names the consequence in figures', () => {
  it('of closing', () => {
    expect(sentences('close', { stats: someStats({ held: 42, available: 38, waiting: 1200 }) })).toEqual([
      'Nobody can order any more.',
      '42 units that are held can still be paid.',
      '1,200 people in the waiting room are sent away.',
      '38 units stay unsold.',
      'This can’t be undone.',
    ]);
    expect(sentences('close', { stats: someStats({ held: 0, available: 0 }) })).toEqual([
      'Nobody can order any more.',
      'No unit is held at the moment.',
      'This can’t be undone.',
    ]);
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

  it('of restocking, also for those who wait', () => {
    expect(sentences('restock', { more: 50 })).toEqual([
      '50 units more, 150 in total.',
      'This can’t be undone.',
    ]);
    expect(sentences('restock', { more: 1, stats: someStats({ available: 0 }) })).toContain(
      'Who is on the waitlist gets them first, in order.',
    );
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

  it('without figures that it does not have', () => {
    const says = consequences('close', aSale({ state: 'open' }), undefined, NOW).map((it) => it.says);
    expect(says).toContain('what_is_held_can_be_paid');
    expect(says).not.toContain('nothing_is_held');
  });

  it('in Chinese, too', () => {
    expect(sentences('close', { words: zh as typeof en })).toContain('42 件待付款的仍可付款。');
  });
});

it('offers only what a state allows', () => {
  expect(actionsIn('draft')).toEqual(['publish']);
  expect(actionsIn('open')).not.toContain('resume');
  expect(actionsIn('paused')).toContain('resume');
  expect(actionsIn('closed')).toEqual([]);
});
