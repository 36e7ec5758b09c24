// Where Back leads after a page that nobody returns to.
import { beforeEach, expect, test, vi } from 'vitest';
import { returnPath, signInAddress } from '../shop/account/return';
import { go, leaveFor, route } from './router.svelte';

const back = vi.fn();

beforeEach(() => {
  vi.spyOn(history, 'back').mockImplementation(back);
  back.mockClear();
  history.replaceState(null, '', '/');
});

test('returning to the page before goes back in the history, so that it is not there twice', () => {
  go('/sales/abc');
  go('/sign-in?to=%2Fsales%2Fabc');
  leaveFor('/sales/abc');
  expect(back).toHaveBeenCalledTimes(1);
});

test('an address with a query is returned to as a whole, and is not there twice', () => {
  go('/sales/abc?utm_source=mail');
  go(signInAddress(route.address));
  leaveFor(returnPath(route.query));
  expect(back).toHaveBeenCalledTimes(1);
});

test('another form in between makes no difference', () => {
  go('/sales/abc');
  go('/sign-in?to=%2Fsales%2Fabc');
  go('/sign-up?to=%2Fsales%2Fabc', 'replace');
  leaveFor('/sales/abc');
  expect(back).toHaveBeenCalledTimes(1);
});

test('a visitor from elsewhere gets the page in place of the form', () => {
  leaveFor('/sales/abc');
  expect(back).not.toHaveBeenCalled();
  expect(location.pathname).toBe('/sales/abc');
});
