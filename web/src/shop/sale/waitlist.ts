// The calls of a waitlist.
import { api, outcome } from '../../api/client';

/**
 * When to fetch the place again, in milliseconds: sooner near the front. An offer is held for a while, so a
 * hidden page can wait.
 */
export function nextLookMs(position: number, isHidden: boolean, random: number): number {
  const every = isHidden ? 20_000 : Math.min(15_000, 4_000 + 100 * position);
  return every * (0.75 + random / 2);
}

const at = (id: string) => ({ params: { path: { id } } });

export const waitlist = {
  look: (id: string) => outcome(api.GET('/api/v1/sales/{id}/waitlist', at(id))),
  join: (id: string, quantity: number) =>
    outcome(api.POST('/api/v1/sales/{id}/waitlist', { ...at(id), body: { quantity } })),
  leave: (id: string) => outcome(api.DELETE('/api/v1/sales/{id}/waitlist', at(id))),
};
