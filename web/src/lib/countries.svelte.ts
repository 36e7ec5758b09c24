// The countries of phone numbers, as the server knows them; the browser knows their names.
import { api, outcome } from '../api/client';
import type { Country } from '../api/schema';

let known = $state.raw<readonly Country[]>([]);
let home = $state.raw<string>();
let areAway = $state(false);
let asked: Promise<void> | undefined;

export const countries = {
  /** Empty until they are loaded. */
  get all(): readonly Country[] {
    return known;
  },
  /** They could not be loaded; a number with its country code needs none. */
  get areAway(): boolean {
    return areAway;
  },
  /** The country of the shop. */
  get home(): string | undefined {
    return home;
  },
};

/** Loads them once; after a failure, again at the next call. */
export function loadCountries(): Promise<void> {
  asked ??= load();
  return asked;
}

async function load(): Promise<void> {
  const answer = await outcome(api.GET('/api/v1/countries'));
  areAway = !answer.ok;
  if (!answer.ok) {
    asked = undefined;
    return;
  }
  known = answer.data.data;
  home = answer.data.default;
}

/** Sorted by their names in this language. */
export function named(all: readonly Country[], locale: string): { value: string; name: string }[] {
  const names = new Intl.DisplayNames([locale], { type: 'region', fallback: 'code' });
  const order = new Intl.Collator(locale);
  return all
    .map(({ country, calling_code }) => ({ value: country, name: `${names.of(country)} +${calling_code}` }))
    .sort((one, other) => order.compare(one.name, other.name));
}
