// The form of an item: what was typed, and what is wrong with it before the server is asked.
import type { Item, ItemRequest } from '../../api/schema';
import { decimalsOf, isCurrency, minorUnits, tidyAmount } from './price';
import type { ConsoleWords } from './words-of';

export interface ItemForm {
  title: string;
  description: string;
  picture: string;
  amount: string;
  currency: string;
}

export function formOfItem(item?: Item): ItemForm {
  return {
    title: item?.title ?? '',
    description: item?.description ?? '',
    picture: item?.picture ?? '',
    amount: item?.regular_price.amount ?? '',
    currency: item?.regular_price.currency ?? 'CNY',
  };
}

export type ItemComplaints = Partial<Record<keyof ItemForm, string>>;

export function itemComplaints(words: ConsoleWords, form: ItemForm): ItemComplaints {
  const say = words.sales.complaints;
  const complaints: ItemComplaints = {};
  const titleLength = [...form.title.trim()].length;
  if (titleLength < 1 || titleLength > 200) complaints.title = say.title;
  if ([...form.description].length > 10_000) complaints.description = say.description;
  if (form.picture && !/^(https?:\/\/|\/)[^\s]*$/.test(form.picture)) complaints.picture = say.picture;
  const currency = form.currency.trim().toUpperCase();
  if (!isCurrency(currency)) complaints.currency = say.currency;
  else if (minorUnits({ amount: tidyAmount(form.amount), currency }) === undefined)
    complaints.amount = say.amount(decimalsOf(currency));
  return complaints;
}

export function itemRequest(form: ItemForm): ItemRequest {
  return {
    title: form.title.trim(),
    description: form.description,
    picture: form.picture.trim() || null,
    regular_price: { amount: tidyAmount(form.amount), currency: form.currency.trim().toUpperCase() },
  };
}

/** What the server complains of, at the field it belongs to. */
export function itemFields(fields: Record<string, string>): ItemComplaints {
  const { regular_price: amount, ...rest } = fields;
  return { ...rest, ...(amount ? { amount } : {}) };
}
