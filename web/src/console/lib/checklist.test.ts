import { describe, expect, it } from 'vitest';
import type { Sale } from '../../api/schema';
import { checklist, mayPublish, type Line, type Point } from './checklist';
import { aSale } from './samples';

const NOW = Date.parse('2026-11-11T10:00:00Z');
const inMinutes = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();

const ready: Partial<Sale> = {
  opens_at: inMinutes(120),
  closes_at: inMinutes(240),
  gate: { challenge: 'pow', waiting_room: true, pass_required: true },
};

function line(about: Point['about'], change: Partial<Sale>): Line {
  const found = checklist(aSale({ ...ready, ...change }), NOW).find(({ point }) => point.about === about);
  if (!found) throw new Error(`there is no line about ${about}`);
  return found;
}

describe('the checklist before publishing', () => {
  it('has nothing to say against a sale that is ready', () => {
    const lines = checklist(aSale(ready), NOW);
    expect(lines.map(({ standing }) => standing)).toEqual(lines.map(() => 'done'));
    expect(mayPublish(lines)).toBe(true);
  });

  it('misses a picture and a description, and says that they are fixed at the item', () => {
    const item = { ...aSale().item, picture: null, description: '  ' };
    expect(line('picture', { item })).toMatchObject({ standing: 'advice', mend: 'item' });
    expect(line('description', { item })).toMatchObject({ standing: 'advice', mend: 'item' });
  });

  it('blocks a price above the regular one or in another currency, and points out an equal one', () => {
    const price = (amount: string, currency = 'CNY') => line('price', { price: { amount, currency } });
    expect(price('4000.00')).toMatchObject({ standing: 'missing', point: { says: 'above' } });
    expect(price('1.00', 'EUR')).toMatchObject({ standing: 'missing', point: { says: 'other_currency' } });
    expect(price('3999.00')).toMatchObject({ standing: 'advice', point: { says: 'same' } });
    expect(price('0')).toMatchObject({ standing: 'advice', point: { says: 'free' } });
    expect(price('1999.00')).toMatchObject({ standing: 'done', point: { says: 'discount', percent: 50 } });
  });

  it('wants an opening that people can be there for', () => {
    expect(line('opening', { opens_at: null })).toMatchObject({
      standing: 'advice',
      point: { says: 'at_once' },
    });
    expect(line('opening', { opens_at: inMinutes(-1) })).toMatchObject({
      standing: 'advice',
      point: { says: 'past' },
    });
    expect(line('opening', { opens_at: inMinutes(5) })).toMatchObject({
      standing: 'advice',
      point: { says: 'soon', minutes: 5 },
    });
    expect(line('opening', { opens_at: inMinutes(60) })).toMatchObject({ standing: 'done' });
  });

  it('blocks a closing in the past or before the opening', () => {
    expect(line('closing', { closes_at: inMinutes(-1), opens_at: null })).toMatchObject({
      standing: 'missing',
      point: { says: 'past' },
    });
    expect(line('closing', { closes_at: inMinutes(60) })).toMatchObject({
      standing: 'missing',
      point: { says: 'before_opening' },
    });
    expect(line('closing', { closes_at: inMinutes(125) })).toMatchObject({
      standing: 'advice',
      point: { says: 'short', minutes: 5 },
    });
    expect(line('closing', { closes_at: null })).toMatchObject({ standing: 'done' });
  });

  it('blocks a limit above the units, and warns if a few buyers could take everything', () => {
    const stock = { total: 100, available: 100 };
    expect(line('limit', { stock, limit_per_buyer: 101 })).toMatchObject({ standing: 'missing' });
    expect(line('limit', { stock, limit_per_buyer: 25 })).toMatchObject({
      standing: 'advice',
      point: { buyers: 4 },
    });
    expect(line('limit', { stock, limit_per_buyer: 2 })).toMatchObject({ standing: 'done' });
    expect(line('limit', { stock: { total: 1, available: 1 }, limit_per_buyer: 1 })).toMatchObject({
      standing: 'done',
    });
  });

  it('advises on the time to pay and on the gate, and blocks for neither', () => {
    expect(line('hold', { hold_seconds: 30 })).toMatchObject({
      standing: 'advice',
      point: { says: 'short' },
    });
    expect(line('hold', { hold_seconds: 7200 })).toMatchObject({
      standing: 'advice',
      point: { says: 'long' },
    });
    const gate = (challenge: Sale['gate']['challenge'], waiting_room: boolean) =>
      line('gate', { gate: { challenge, waiting_room, pass_required: true } });
    expect(gate('none', false)).toMatchObject({ standing: 'advice', point: { says: 'open_to_a_crowd' } });
    expect(gate('none', true)).toMatchObject({ standing: 'advice', point: { says: 'room_only' } });
    expect(gate('pow', false)).toMatchObject({ standing: 'done' });
    const calm: Partial<Sale> = {
      price: { amount: '3900.00', currency: 'CNY' },
      gate: { challenge: 'none', waiting_room: false, pass_required: false },
    };
    expect(line('gate', calm)).toMatchObject({ standing: 'done', point: { says: 'open' } });
  });

  it('lets advice pass, but not missing points', () => {
    const advice = checklist(aSale({ ...ready, opens_at: null }), NOW);
    expect(advice.some(({ standing }) => standing === 'advice')).toBe(true);
    expect(mayPublish(advice)).toBe(true);
    expect(mayPublish(checklist(aSale({ ...ready, limit_per_buyer: 1000 }), NOW))).toBe(false);
  });
});
