// The calls of a waitlist.
import { api, outcome, type Outcome } from '../../api/client';

/** A place on the list of who waits for units that come back. */
export interface Place {
  sale_id: string;
  quantity: number;
  /** 1 is next. */
  position: number;
  joined_at: string;
}

interface Untyped {
  (path: string, options: object): Promise<{ data?: unknown; error?: unknown; response: Response }>;
}
const call = api as unknown as Record<'GET' | 'POST' | 'DELETE', Untyped>;
const PATH = '/api/v1/sales/{id}/waitlist';

export const waitlist = {
  look: (id: string) => outcome(call.GET(PATH, { params: { path: { id } } })) as Promise<Outcome<Place>>,
  join: (id: string, quantity: number) =>
    outcome(call.POST(PATH, { params: { path: { id } }, body: { quantity } })) as Promise<Outcome<Place>>,
  leave: (id: string) => outcome(call.DELETE(PATH, { params: { path: { id } } })),
};
