// The form of an item: the typed text, and its errors before the server is asked.
import type { Item, ItemRequest } from '../../api/schema';
import { decimalsOf, isCurrency, minorUnits, tidyAmount } from './price';
import { priceComplaint } from './server-says';
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

/**
 * `before` is the saved item: a picture that was accepted once does not keep the title from being changed.
 */
export function itemComplaints(words: ConsoleWords, form: ItemForm, before?: Item): ItemComplaints {
  const say = words.sales.complaints;
  const complaints: ItemComplaints = {};
  const titleLength = [...form.title.trim()].length;
  if (titleLength < 1 || titleLength > 200) complaints.title = say.title;
  if ([...form.description].length > 10_000) complaints.description = say.description;
  const isNew = form.picture.trim() !== (before?.picture ?? '');
  if (isNew && form.picture.trim() && !/^(https:\/\/|\/(?![/\\]))\S*$/.test(form.picture.trim()))
    complaints.picture = say.picture;
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

/** Whether this item is the one that was to be saved. */
export function isItemOf(request: ItemRequest, item: Item): boolean {
  return (
    item.title === request.title &&
    item.description === request.description &&
    (item.picture ?? null) === (request.picture ?? null) &&
    item.regular_price.currency === request.regular_price.currency &&
    minorUnits(item.regular_price) === minorUnits(request.regular_price)
  );
}

/** The server's complaints, in our words, at the fields they belong to. */
export function itemFields(
  words: ConsoleWords,
  fields: Record<string, string>,
  form: ItemForm,
): { complaints: ItemComplaints; isAll: boolean } {
  const complaints: ItemComplaints = {};
  let isAll = true;
  for (const [field, message] of Object.entries(fields)) {
    if (field === 'regular_price') Object.assign(complaints, priceComplaint(words, message, form.currency));
    else if (field === 'title' || field === 'description' || field === 'picture')
      complaints[field] = words.sales.complaints[field];
    else isAll = false;
  }
  return { complaints, isAll };
}
