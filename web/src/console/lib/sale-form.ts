// The form of a sale: the typed text, and its errors before the server is asked.
import type { Item, Sale, SaleRequest } from '../../api/schema';
import { decimalsOf, isCurrency, minorUnits, tidyAmount } from './price';
import { priceComplaint, unitsComplaint } from './server-says';
import type { ConsoleWords } from './words-of';
import { fromLocal, toLocal } from './zoned';

/** The contents of the fields: all text, times in the visitor's zone. */
export interface SaleForm {
  itemId: string;
  amount: string;
  currency: string;
  units: string;
  limit: string;
  opens: string;
  closes: string;
  hold: string;
  challenge: Sale['gate']['challenge'];
  waitingRoom: boolean;
}

export type SaleComplaints = Partial<Record<keyof SaleForm, string>>;

export function newSaleForm(item?: Item): SaleForm {
  return {
    itemId: item?.id ?? '',
    amount: '',
    currency: item?.regular_price.currency ?? 'CNY',
    units: '',
    limit: '1',
    opens: '',
    closes: '',
    hold: '900',
    challenge: 'none',
    waitingRoom: false,
  };
}

export function formOfSale(sale: Sale, zone?: string): SaleForm {
  return {
    itemId: sale.item.id,
    amount: sale.price.amount,
    currency: sale.price.currency,
    units: String(sale.stock.total),
    limit: String(sale.limit_per_buyer),
    opens: sale.opens_at ? toLocal(sale.opens_at, zone) : '',
    closes: sale.closes_at ? toLocal(sale.closes_at, zone) : '',
    hold: String(sale.hold_seconds),
    challenge: sale.gate.challenge,
    waitingRoom: sale.gate.waiting_room,
  };
}

function isWhole(text: string, most: number): boolean {
  return /^\d{1,10}$/.test(text.trim()) && Number(text) >= 1 && Number(text) <= most;
}

export function saleComplaints(words: ConsoleWords, form: SaleForm, zone?: string): SaleComplaints {
  const say = words.sales.complaints;
  const complaints: SaleComplaints = {};
  if (!form.itemId) complaints.itemId = say.item_id;
  const currency = form.currency.trim().toUpperCase();
  if (!isCurrency(currency)) complaints.currency = say.currency;
  else if (minorUnits({ amount: tidyAmount(form.amount), currency }) === undefined)
    complaints.amount = say.amount(decimalsOf(currency));
  if (!isWhole(form.units, 100_000_000)) complaints.units = say.units;
  if (!isWhole(form.limit, 1_000_000)) complaints.limit = say.limit_per_buyer;
  if (!isWhole(form.hold, 2_592_000)) complaints.hold = say.hold_seconds;
  for (const field of ['opens', 'closes'] as const) {
    const time = form[field] && fromLocal(form[field], zone);
    if (time === 'malformed') complaints[field] = say.time;
    if (time === 'skipped') complaints[field] = say.skippedTime;
  }
  const [opens, closes] = [instant(form.opens, zone), instant(form.closes, zone)];
  if (opens && closes && Date.parse(closes) <= Date.parse(opens)) complaints.closes = say.closes_at;
  return complaints;
}

function instant(text: string, zone?: string): string | null {
  const time = text ? fromLocal(text, zone) : undefined;
  return typeof time === 'object' ? time.instant : null;
}

/** `before` is the saved sale: an unchanged time keeps its precision beyond that of the field. */
export function saleRequest(form: SaleForm, before?: Sale, zone?: string): SaleRequest {
  const untouched = before && formOfSale(before, zone);
  return {
    item_id: form.itemId,
    price: { amount: tidyAmount(form.amount), currency: form.currency.trim().toUpperCase() },
    units: Number(form.units),
    limit_per_buyer: Number(form.limit),
    opens_at: untouched?.opens === form.opens ? (before?.opens_at ?? null) : instant(form.opens, zone),
    closes_at: untouched?.closes === form.closes ? (before?.closes_at ?? null) : instant(form.closes, zone),
    hold_seconds: Number(form.hold),
    gate: { challenge: form.challenge, waiting_room: form.waitingRoom, pass_required: null },
  };
}

/** Whether this draft is the one that was to be saved. */
export function isDraftOf(request: SaleRequest, sale: Sale): boolean {
  const at = (time: string | null | undefined) => (time ? Date.parse(time) : undefined);
  return (
    sale.state === 'draft' &&
    sale.item.id === request.item_id &&
    sale.price.currency === request.price.currency &&
    minorUnits(sale.price) === minorUnits(request.price) &&
    sale.stock.total === request.units &&
    sale.limit_per_buyer === request.limit_per_buyer &&
    at(sale.opens_at) === at(request.opens_at) &&
    at(sale.closes_at) === at(request.closes_at) &&
    sale.hold_seconds === request.hold_seconds &&
    sale.gate.challenge === request.gate?.challenge &&
    sale.gate.waiting_room === request.gate?.waiting_room
  );
}

/** The server's complaints, in our words, at the fields they belong to. */
export function saleFields(
  words: ConsoleWords,
  fields: Record<string, string>,
  form: SaleForm,
): { complaints: SaleComplaints; isAll: boolean } {
  const say = words.sales.complaints;
  const complaints: SaleComplaints = {};
  let isAll = true;
  for (const [field, message] of Object.entries(fields)) {
    if (field === 'item_id') complaints.itemId = say.itemGone;
    else if (field === 'price') Object.assign(complaints, priceComplaint(words, message, form.currency));
    else if (field === 'units') complaints.units = unitsComplaint(words, message);
    else if (field === 'limit_per_buyer') complaints.limit = say.limit_per_buyer;
    else if (field === 'hold_seconds') complaints.hold = say.hold_seconds;
    else if (field === 'opens_at') complaints.opens = say.time;
    else if (field === 'closes_at')
      complaints.closes = /after opens_at/.test(message) ? say.closes_at : say.time;
    else if (field === 'gate.challenge') complaints.challenge = say.challenge;
    else isAll = false;
  }
  return { complaints, isAll };
}
