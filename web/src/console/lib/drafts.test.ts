import { afterEach, expect, it, vi } from 'vitest';
import { forgetAllDrafts, forgetDraft, keepDraft, keptDraft } from './drafts';

afterEach(() => {
  vi.restoreAllMocks();
  forgetAllDrafts();
});

it('keeps typed text until it is saved', () => {
  keepDraft('sale:new', { units: '4' });
  expect(keptDraft('sale:new')).toEqual({ units: '4' });
  expect(keptDraft('sale:other')).toBeUndefined();
  forgetDraft('sale:new');
  expect(keptDraft('sale:new')).toBeUndefined();
});

it('forgets everything when somebody signs out', () => {
  keepDraft('sale:new', {});
  keepDraft('item:7', {});
  sessionStorage.setItem('penstock.draft.item:8', '{}');
  sessionStorage.setItem('other', 'stays');
  forgetAllDrafts();
  expect(keptDraft('item:7')).toBeUndefined();
  expect(keptDraft('item:8')).toBeUndefined();
  expect(sessionStorage.getItem('other')).toBe('stays');
});

it('works where nothing may be stored', () => {
  vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new Error('full');
  });
  vi.spyOn(Storage.prototype, 'getItem').mockReturnValue(null);
  keepDraft('sale:new', { units: '4' });
  expect(keptDraft('sale:new')).toEqual({ units: '4' });
});

it('ignores what it can’t read', () => {
  sessionStorage.setItem('penstock.draft.sale:new', '{');
  expect(keptDraft('sale:new')).toBeUndefined();
});
