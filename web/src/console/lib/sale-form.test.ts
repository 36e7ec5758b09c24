import { describe, expect, it } from 'vitest';
import en from '../words/en';
import { aSale } from './samples';
import { formOfSale, newSaleForm, saleComplaints, saleFields, saleRequest } from './sale-form';

const ZONE = 'Asia/Shanghai';
const sale = aSale({ opens_at: '2026-11-11T12:00:00.123Z', closes_at: '2026-11-11T14:00:00Z' });
const form = formOfSale(sale, ZONE);

describe('the form of a sale', () => {
  it('shows a draft in the visitor’s zone and gives it back', () => {
    expect(form).toMatchObject({ opens: '2026-11-11T20:00', closes: '2026-11-11T22:00', units: '100' });
    const request = saleRequest(form, sale, ZONE);
    // The field shows no milliseconds, and nobody touched it.
    expect(request.opens_at).toBe('2026-11-11T12:00:00.123Z');
    expect(request).toMatchObject({ item_id: 'p1', units: 100, limit_per_buyer: 1, hold_seconds: 900 });
  });

  it('takes over what is typed, and clears a time that is taken away', () => {
    const request = saleRequest({ ...form, opens: '2026-11-11T21:30', closes: '' }, sale, ZONE);
    expect(request).toMatchObject({ opens_at: '2026-11-11T13:30:00.000Z', closes_at: null });
  });

  it('complains at the field', () => {
    expect(saleComplaints(en, form, ZONE)).toEqual({});
    expect(Object.keys(saleComplaints(en, newSaleForm(), ZONE)).sort()).toEqual([
      'amount',
      'itemId',
      'units',
    ]);
    for (const units of ['0', '1.5', '-3', 'many', '100000001']) {
      expect(saleComplaints(en, { ...form, units }, ZONE), units).toEqual({
        units: en.sales.complaints.units,
      });
    }
    expect(saleComplaints(en, { ...form, closes: form.opens }, ZONE)).toEqual({
      closes: en.sales.complaints.closes_at,
    });
    expect(saleComplaints(en, { ...form, opens: '2026-03-29T02:30' }, 'Europe/Berlin')).toEqual({
      opens: en.sales.complaints.skippedTime,
    });
  });

  it('puts what the server says where it belongs', () => {
    expect(saleFields({ closes_at: 'has to come after opens_at', price: 'too large' })).toEqual({
      closes: 'has to come after opens_at',
      amount: 'too large',
    });
  });
});
