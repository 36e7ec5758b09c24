import { expect, it } from 'vitest';
import type { Item } from '../../api/schema';
import en from '../words/en';
import zh from '../words/zh';
import { formOfItem, itemComplaints, itemFields, itemRequest, type ItemForm } from './item-form';

const fine: ItemForm = {
  title: ' Kettle ',
  description: 'Boils.',
  picture: '/pictures/k.png',
  amount: '1,299.5',
  currency: 'cny',
};

it('becomes a request of the API', () => {
  expect(itemComplaints(en, fine)).toEqual({});
  expect(itemRequest(fine)).toEqual({
    title: 'Kettle',
    description: 'Boils.',
    picture: '/pictures/k.png',
    regular_price: { amount: '1299.5', currency: 'CNY' },
  });
  expect(itemRequest({ ...fine, picture: ' ' }).picture).toBeNull();
});

it('has its errors at the fields', () => {
  const complaints = (change: Partial<ItemForm>) => Object.keys(itemComplaints(en, { ...fine, ...change }));
  expect(Object.keys(itemComplaints(en, formOfItem()))).toEqual(['title', 'amount']);
  expect(complaints({ title: '  ' })).toEqual(['title']);
  expect(complaints({ title: '水'.repeat(201) })).toEqual(['title']);
  expect(complaints({ title: '😀'.repeat(200) })).toEqual([]);
  expect(complaints({ description: 'x'.repeat(10_001) })).toEqual(['description']);
  expect(complaints({ picture: 'javascript:alert(1)' })).toEqual(['picture']);
  // The pages' policy lets no browser show it.
  expect(complaints({ picture: 'http://x/a.png' })).toEqual(['picture']);
  expect(complaints({ picture: '//x/a.png' })).toEqual(['picture']);
  const old = { picture: 'http://x/a.png' } as Item;
  expect(itemComplaints(en, { ...fine, picture: 'http://x/a.png' }, old)).toEqual({});
  expect(complaints({ picture: 'https://x/a.png' })).toEqual([]);
  expect(complaints({ picture: 'https://x/a b.png' })).toEqual(['picture']);
  expect(complaints({ currency: 'RMB2' })).toEqual(['currency']);
  expect(complaints({ amount: '12.345' })).toEqual(['amount']);
  expect(complaints({ amount: '1200.5', currency: 'JPY' })).toEqual(['amount']);
});

it('shows the server’s complaints in our words, at the field', () => {
  const said = (fields: Record<string, string>) => itemFields(zh, fields, fine);
  const say = zh.sales.complaints;
  expect(
    said({ regular_price: 'the amount is too large', title: 'has to have 1 to 200 characters' }),
  ).toEqual({
    complaints: { amount: say.amountTooLarge, title: say.title },
    isAll: true,
  });
  expect(said({ regular_price: 'a currency is three capital letters, such as CNY' }).complaints).toEqual({
    currency: say.currency,
  });
  expect(said({ colour: 'is new' })).toEqual({ complaints: {}, isAll: false });
});
