import { describe, expect, it } from 'vitest';
import en from '../words/en';
import zh from '../words/zh';
import { aSale } from './samples';
import { formOfSale, isDraftOf, newSaleForm, saleComplaints, saleFields, saleRequest } from './sale-form';

const ZONE = 'Asia/Shanghai';
const sale = aSale({ opens_at: '2026-11-11T12:00:00.123Z', closes_at: '2026-11-11T14:00:00Z' });
const form = formOfSale(sale, ZONE);

describe('the form of a sale', () => {
  it('shows a draft in the visitor’s zone and reads it back', () => {
    expect(form).toMatchObject({ opens: '2026-11-11T20:00', closes: '2026-11-11T22:00', units: '100' });
    const request = saleRequest(form, sale, ZONE);
    // The field shows no milliseconds, and was not changed.
    expect(request.opens_at).toBe('2026-11-11T12:00:00.123Z');
    expect(request).toMatchObject({ item_id: 'p1', units: 100, limit_per_buyer: 1, hold_seconds: 900 });
  });

  it('takes over typed text, and clears a time that is removed', () => {
    const request = saleRequest({ ...form, opens: '2026-11-11T21:30', closes: '' }, sale, ZONE);
    expect(request).toMatchObject({ opens_at: '2026-11-11T13:30:00.000Z', closes_at: null });
  });

  it('shows errors at the field', () => {
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

  it('is recognised in a draft that was made from it', () => {
    const request = saleRequest({ ...form, amount: '1999' }, sale, ZONE);
    expect(isDraftOf(request, sale)).toBe(true);
    expect(isDraftOf(request, { ...sale, state: 'open' })).toBe(false);
    for (const change of [{ units: '99' }, { closes: '' }, { amount: '1998' }, { waitingRoom: true }])
      expect(isDraftOf(saleRequest({ ...form, ...change }, sale, ZONE), sale), JSON.stringify(change)).toBe(
        false,
      );
  });

  it('shows the server’s complaints in our words, at the field', () => {
    const say = zh.sales.complaints;
    const fields = {
      closes_at: 'has to come after opens_at',
      price: 'an amount is digits with at most 2 decimals, such as 1999.00',
      item_id: 'there is no such item',
      units: 'has to be 1 to 100000000',
    };
    expect(saleFields(zh, fields, form)).toEqual({
      complaints: { closes: say.closes_at, amount: say.amount(2), itemId: say.itemGone, units: say.units },
      isAll: true,
    });
    const asked = {
      opens_at: 'has to be a time in RFC 3339, such as …',
      'gate.pass_required': 'leave it out',
    };
    expect(saleFields(zh, asked, form)).toEqual({ complaints: { opens: say.time }, isAll: false });
  });
});
