// Money, numbers and times in the format of the visitor's language.
import type { Money } from '../api/schema';
import { i18n } from '../i18n/index.svelte';

/**
 * Yuan and yen share a sign, so it includes the country: CN¥ and JP¥. Only in Chinese does ¥ alone mean the
 * yuan.
 */
export function money({ amount, currency }: Money): string {
  const format = new Intl.NumberFormat(i18n.locale, {
    style: 'currency',
    currency,
    // Whole amounts are shown without cents.
    ...(/\.0+$/.test(amount) ? { minimumFractionDigits: 0, maximumFractionDigits: 0 } : {}),
  });
  // Browsers write the yen as ¥ in English.
  const isBare = i18n.language === 'en' && currency === 'JPY';
  // As a string: an amount may have more digits than a number can hold.
  const parts = format.formatToParts(amount as unknown as number);
  return parts.map(({ type, value }) => (isBare && type === 'currency' ? 'JP¥' : value)).join('');
}

/** An amount times a quantity, exact to the last digit. */
export function times({ amount, currency }: Money, quantity: number): Money {
  const decimals = amount.split('.')[1]?.length ?? 0;
  const digits = String(BigInt(amount.replace('.', '')) * BigInt(quantity)).padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  return { amount: decimals ? `${whole}.${digits.slice(-decimals)}` : whole, currency };
}

export function number(value: number, options: Intl.NumberFormatOptions = {}): string {
  return new Intl.NumberFormat(i18n.locale, options).format(value);
}

/**
 * In the visitor's time zone. `long` and `zoned` name the zone, for times that people agree on, such as an
 * opening.
 */
export function moment(time: string | number, style: 'short' | 'zoned' | 'long' = 'short'): string {
  const options: Intl.DateTimeFormatOptions = {
    ...(style === 'long' ? { year: 'numeric', month: 'long' } : { month: 'short' }),
    day: 'numeric',
    hour: 'numeric',
    minute: '2-digit',
    ...(style === 'short' ? {} : { timeZoneName: 'short' }),
  };
  return new Intl.DateTimeFormat(i18n.locale, options).format(new Date(time));
}

/** 0:07, 12:03, 3:00:00; with days in front if there are any. */
export function countdown(milliseconds: number): { days: number; clock: string } {
  // Our idea of the server's time is slightly off: 15 minutes must not begin at 15:01.
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000 - 0.1));
  const two = (value: number) => String(value).padStart(2, '0');
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor((seconds % 86_400) / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const rest = `${two(minutes)}:${two(seconds % 60)}`;
  return { days, clock: days || hours ? `${two(hours)}:${rest}` : rest };
}

/** A length of time in the largest unit that it fills: 45 seconds, 15 minutes, 2 hours. */
export function span(seconds: number): string {
  const [value, unit] =
    seconds < 100
      ? [seconds, 'second']
      : seconds < 100 * 60
        ? [seconds / 60, 'minute']
        : seconds < 48 * 3600
          ? [seconds / 3600, 'hour']
          : [seconds / 86_400, 'day'];
  return number(value, { style: 'unit', unit, unitDisplay: 'long', maximumFractionDigits: 1 });
}
