// The calls of a waitlist.
import { api, outcome } from '../../api/client';

const at = (id: string) => ({ params: { path: { id } } });

export const waitlist = {
  look: (id: string) => outcome(api.GET('/api/v1/sales/{id}/waitlist', at(id))),
  join: (id: string, quantity: number) =>
    outcome(api.POST('/api/v1/sales/{id}/waitlist', { ...at(id), body: { quantity } })),
  leave: (id: string) => outcome(api.DELETE('/api/v1/sales/{id}/waitlist', at(id))),
};
