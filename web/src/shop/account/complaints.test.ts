// A complaint is gone once what it complains about has changed.
import { cleanup, fireEvent, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { whoAmI } from '../../lib/session.svelte';
import Account from '../pages/Account.svelte';
import ConsoleSignIn from '../../console/parts/SignIn.svelte';
import { loadWords as loadConsoleWords } from '../../console/words.svelte';
import SignIn from '../pages/SignIn.svelte';
import SignUp from '../pages/SignUp.svelte';
import { loadWords } from '../words.svelte';

const answers = vi.hoisted(() => {
  const answers = new Map<string, () => Response>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const answer = answers.get(new URL((input as Request).url).pathname);
    return answer ? answer() : Response.json({ code: 'not_found' }, { status: 404 });
  };
  return answers;
});

const invalid =
  (...fields: string[]) =>
  () => {
    const errors = fields.map((field) => ({ field, message: 'is wrong' }));
    return Response.json({ code: 'invalid_request', errors }, { status: 422 });
  };
const red = () =>
  [...document.querySelectorAll('[aria-invalid="true"]')].map((field) => field.getAttribute('name'));
const type = (label: string, value: string) =>
  fireEvent.input(screen.getByLabelText(label), { target: { value } });

beforeEach(async () => {
  answers.clear();
  await Promise.all([speak('en', false), loadWords('en'), loadConsoleWords('en')]);
});
afterEach(cleanup);

test('signing in', async () => {
  answers.set('/api/v1/sessions', invalid('phone'));
  render(SignIn);
  await type('Phone number', '1');
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await vi.waitFor(() => expect(red()).toEqual(['phone']));
  await type('Phone number', '12');
  expect(red()).toEqual([]);
  expect(screen.queryByRole('alert')).toBeNull();
  // The same complaint again is a new one.
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await vi.waitFor(() => expect(red()).toEqual(['phone']));
});

test.each([
  ['the shop', SignIn],
  ['the console', ConsoleSignIn],
])('signing in to %s with a wrong password', async (_, page) => {
  answers.set('/api/v1/sessions', () => Response.json({ code: 'bad_credentials' }, { status: 401 }));
  render(page);
  for (const label of ['Phone number', 'Password']) {
    await fireEvent.submit(document.forms[0] as HTMLFormElement);
    await screen.findByRole('alert');
    await type(label, 'something else');
    expect(screen.queryByRole('alert')).toBeNull();
  }
  // How long to wait stays on the page.
  answers.set('/api/v1/sessions', () => Response.json({ code: 'rate_limited' }, { status: 429 }));
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await screen.findByRole('alert');
  await type('Password', 'something else again');
  screen.getByRole('alert');
});

test('signing up, field by field', async () => {
  answers.set('/api/v1/otp', () => new Response('{}', { status: 202 }));
  answers.set('/api/v1/accounts', invalid('name', 'password'));
  render(SignUp);
  await type('Phone number', '+8613800138000');
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await screen.findByLabelText('One-time code');
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await vi.waitFor(() => expect(red()).toEqual(['name', 'password']));
  await type('Name', 'Ada');
  expect(red()).toEqual(['password']);
  await type('Password', 'long enough');
  expect(red()).toEqual([]);
  answers.set('/api/v1/accounts', () => Response.json({ code: 'otp_invalid' }, { status: 403 }));
  await fireEvent.submit(document.forms[0] as HTMLFormElement);
  await vi.waitFor(() => expect(red()).toEqual(['code']));
  await type('One-time code', '123456');
  expect(red()).toEqual([]);
});

test('changing the password', async () => {
  const account = { id: 'a', name: 'Ada', phone: '+8613800138000', created_at: '2026-11-19T10:00:00Z' };
  answers.set('/api/v1/me', () => Response.json({ account }));
  document.cookie = 'penstock_signed_in=1';
  await whoAmI();
  render(Account);
  const change = async () => fireEvent.submit(document.forms[0] as HTMLFormElement);
  answers.set('/api/v1/me/password', invalid('new_password'));
  await change();
  await vi.waitFor(() => expect(red()).toEqual(['new-password']));
  await type('New password', 'long enough');
  expect(red()).toEqual([]);
  answers.set('/api/v1/me/password', () => Response.json({ code: 'bad_credentials' }, { status: 401 }));
  await change();
  await vi.waitFor(() => expect(red()).toEqual(['current-password']));
  await type('Current password', 'the right one');
  expect(red()).toEqual([]);
});
