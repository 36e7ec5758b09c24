// The signed-in user. The token itself is in a cookie that no script can read.
import { api, outcome, type Failure, type Outcome } from '../api/client';
import type { Me } from '../api/schema';
import { delayMs } from './retry';
import { tellTabs } from './tabs';

let me = $state.raw<Me | null | undefined>(undefined);
let again: ReturnType<typeof setTimeout> | undefined;
let asked = 0;

export const session = {
  /** Undefined until it is known; null: nobody is signed in. */
  get me() {
    return me;
  },
};

/**
 * Whether a session began in this browser. A cookie without a secret accompanies the one that no script can
 * read.
 */
function mayBeSignedIn(): boolean {
  return /(?:^|; )penstock_signed_in=1/.test(document.cookie);
}

/** Asks the server who is signed in, unless it is certain that nobody is. */
export async function whoAmI(tries = 1): Promise<void> {
  clearTimeout(again);
  const turn = (asked += 1);
  if (!mayBeSignedIn()) {
    me = null;
    return;
  }
  const answer = await outcome(api.GET('/api/v1/me'));
  // A later request has the newer answer.
  if (turn !== asked) return;
  if (answer.ok) me = answer.data;
  else if (answer.failure.status === 401) me = null;
  // If the server can't say, somebody may be signed in, perhaps another user than before: ask again.
  else {
    me = undefined;
    const later = delayMs(tries, answer.failure.retryAfterSeconds, Math.random());
    again = setTimeout(() => void whoAmI(tries + 1), later);
  }
}

/** Without a country, the phone has its country code, or belongs to the shop's own country. */
export async function signIn(
  phone: string,
  country: string | undefined,
  password: string,
): Promise<Failure | undefined> {
  const body = { phone, password, ...(country && { country }) };
  const answer = await outcome(api.POST('/api/v1/sessions', { body }));
  if (!answer.ok) return answer.failure;
  me = undefined;
  await whoAmI();
  tellTabs({ about: 'session' });
  return undefined;
}

export async function signOut(): Promise<Failure | undefined> {
  const answer: Outcome<unknown> = await outcome(api.DELETE('/api/v1/sessions/current'));
  // A session that has already ended is fine, too.
  if (!answer.ok && answer.failure.status !== 401) return answer.failure;
  me = null;
  tellTabs({ about: 'session' });
  return undefined;
}

/** A call was answered 401: the session has ended. */
export function signedOut(): void {
  me = null;
}
