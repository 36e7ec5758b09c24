import { expect, test } from 'vitest';
import { follow, match, safePath } from './router.svelte';
import { returnPath, signInAddress } from '../shop/account/return';

test('an address is matched with its parameters', () => {
  expect(match('/sales/:id', '/sales/abc')).toEqual({ id: 'abc' });
  expect(match('/sales/:id', '/sales/abc/')).toEqual({ id: 'abc' });
  expect(match('/sales/:id', '/sales/a%20b')).toEqual({ id: 'a b' });
  expect(match('/sales/:id', '/sales/%E0%A4%A')).toEqual({ id: '%E0%A4%A' });
  expect(match('/', '/')).toEqual({});
  expect(match('/orders', '/sales')).toBeUndefined();
  expect(match('/sales/:id', '/sales')).toBeUndefined();
});

test('a visitor returns only to paths of this site', () => {
  expect(safePath('/sales/abc')).toBe('/sales/abc');
  expect(safePath('/orders?after=1')).toBe('/orders?after=1');
  for (const evil of [
    null,
    '',
    'sales',
    '//evil.example',
    '/\\evil.example',
    '/\t/evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    '\\\\evil.example',
    '/..//evil.example',
    '/sales/../..//evil.example',
    '/%2e%2e//evil.example',
    '/.//evil.example',
  ]) {
    expect(safePath(evil)).toBe('/');
  }
});

test('a fragment of this page gets the focus, but no history entry', () => {
  document.body.innerHTML = '<a href="#main">Skip</a><main id="main" tabindex="-1"></main>';
  const stay = follow(['/']);
  document.body.addEventListener('click', stay);
  const before = history.length;
  document.querySelector('a')?.click();
  document.body.removeEventListener('click', stay);
  expect(document.activeElement?.id).toBe('main');
  expect(history.length).toBe(before);
  expect(location.hash).toBe('');
});

test('signing in leads back, and not to itself', () => {
  expect(signInAddress('/sales/abc')).toBe('/sign-in?to=%2Fsales%2Fabc');
  expect(signInAddress('/')).toBe('/sign-in');
  expect(signInAddress('/sign-up')).toBe('/sign-in');
  expect(returnPath(new URLSearchParams('to=/sales/abc'))).toBe('/sales/abc');
  expect(returnPath(new URLSearchParams('to=/sign-in?to=/sign-in'))).toBe('/');
  expect(returnPath(new URLSearchParams('to=https://evil.example'))).toBe('/');
});
