// Amounts as a merchant types them, compared without floating-point errors.
import type { Money } from '../../api/schema';

/** By ISO 4217, as on the server. */
const WITHOUT_DECIMALS = 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'.split(' ');
const WITH_THREE = 'BHD IQD JOD KWD LYD OMR TND'.split(' ');
const WITH_TWO = (
  'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY ' +
  'COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF ' +
  'IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR ' +
  'MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG ' +
  'SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES ' +
  'WST XCD XCG YER ZAR ZMW ZWG'
).split(' ');

/** Currencies in use today, the most common ones first. */
export const CURRENCIES: readonly string[] = [
  ...new Set(
    ['CNY', 'USD', 'EUR', 'JPY', 'GBP', 'HKD'].concat(
      [...WITHOUT_DECIMALS, ...WITH_THREE, ...WITH_TWO].sort(),
    ),
  ),
];

export function decimalsOf(currency: string): number {
  if (WITHOUT_DECIMALS.includes(currency)) return 0;
  return WITH_THREE.includes(currency) ? 3 : 2;
}

const MAX_MINOR = 1_000_000_000_000n;

/** In the smallest unit of the currency; undefined if it is not an amount. */
export function minorUnits({ amount, currency }: Money): bigint | undefined {
  const found = /^(\d{1,16})(?:\.(\d+))?$/.exec(amount);
  const decimals = decimalsOf(currency);
  const fraction = found?.[2] ?? '';
  if (!found || fraction.length > decimals) return undefined;
  const minor = BigInt((found[1] ?? '') + fraction.padEnd(decimals, '0'));
  return minor <= MAX_MINOR ? minor : undefined;
}

export function isCurrency(text: string): boolean {
  return CURRENCIES.includes(text);
}

/** The typed amount in the form of the API: 1 999,00 and 1,999.00 are the same. */
export function tidyAmount(typed: string): string {
  const plain = typed.trim().replace(/[\s'’]/g, '');
  // A single comma before the last one or two digits is a decimal comma, if there is no point.
  const decimal = /^\d+,\d{1,2}$/.test(plain) ? plain.replace(',', '.') : plain.replace(/,/g, '');
  return decimal;
}

/** By how many percent `price` is below `regular`, rounded down; undefined if they can't be compared. */
export function discountPercent(price: Money, regular: Money): number | undefined {
  const [low, high] = [minorUnits(price), minorUnits(regular)];
  if (low === undefined || high === undefined || high === 0n || price.currency !== regular.currency)
    return undefined;
  return Number(((high - low) * 100n) / high);
}
