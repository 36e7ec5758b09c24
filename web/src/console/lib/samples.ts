// A sale for tests.
import type { Sale, SaleStats } from '../../api/schema';

export function aSale(change: Partial<Sale> = {}): Sale {
  return {
    id: '1f5r7wz82mh35',
    item: { id: 'p1', title: 'Phone X', description: 'A phone.', picture: '/pictures/p.png' },
    price: { amount: '1999.00', currency: 'CNY' },
    regular_price: { amount: '3999.00', currency: 'CNY' },
    opens_at: null,
    closes_at: null,
    state: 'draft',
    stock: { total: 100, available: 100 },
    limit_per_buyer: 1,
    hold_seconds: 900,
    gate: { challenge: 'none', waiting_room: false, pass_required: false },
    server_time: '2026-01-01T12:00:00Z',
    ...change,
  };
}

export function someStats(change: Partial<SaleStats> = {}): SaleStats {
  return {
    sale_id: '1f5r7wz82mh35',
    state: 'open',
    total: 100,
    available: 38,
    held: 42,
    paid: 20,
    passes_live: 0,
    waiting: 0,
    waitlist: 0,
    version: 7,
    server_time: '2026-11-11T10:00:00Z',
    ...change,
  };
}
