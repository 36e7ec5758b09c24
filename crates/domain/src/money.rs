//! Money in minor units. There are no fractions of a minor unit and no floating point anywhere.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// An ISO 4217 code such as `CNY`. A stored one may no longer be in use, or may never have been.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Currency([u8; 3]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoney {
    #[error("the currency has to be a code of ISO 4217 that is in use, such as CNY")]
    Currency,
    #[error("an amount is digits with at most {0} decimals, such as 1999.00")]
    Amount(usize),
    #[error("the amount is too large")]
    TooLarge,
}

/// No single amount exceeds this, so that an amount times any quantity still fits.
pub const MAX_MINOR: i64 = 1_000_000_000_000;
const _: () = assert!(MAX_MINOR.checked_mul(crate::MAX_LIMIT_PER_BUYER as i64).is_some());

impl Currency {
    pub fn as_str(&self) -> &str {
        // The bytes are ASCII capitals by construction.
        std::str::from_utf8(&self.0).unwrap_or("XXX")
    }

    /// Reads what `as_str` gave, for example from SQL. An old order must stay readable even if its currency
    /// has left the list.
    pub fn from_stored(text: &str) -> Result<Self, InvalidMoney> {
        let code: [u8; 3] = text.as_bytes().try_into().map_err(|_| InvalidMoney::Currency)?;
        if code.iter().all(u8::is_ascii_uppercase) { Ok(Self(code)) } else { Err(InvalidMoney::Currency) }
    }

    /// How many decimals the currency has.
    pub fn decimals(&self) -> usize {
        decimals_in_use(self.0).unwrap_or(2)
    }
}

/// The currencies that people can pay with today, by their decimals (ISO 4217, without funds, metals and
/// test codes).
const IN_USE: [(usize, &str); 3] = [
    (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"),
    (
        2,
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF \
         CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL \
         HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT \
         MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB \
         SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH \
         USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
];

fn decimals_in_use(code: [u8; 3]) -> Option<usize> {
    let is_in = |codes: &str| codes.as_bytes().chunks(4).any(|listed| listed.starts_with(&code));
    IN_USE.into_iter().find(|(_, codes)| is_in(codes)).map(|(decimals, _)| decimals)
}

impl FromStr for Currency {
    type Err = InvalidMoney;

    fn from_str(text: &str) -> Result<Self, InvalidMoney> {
        let currency = Self::from_stored(text)?;
        decimals_in_use(currency.0).map(|_| currency).ok_or(InvalidMoney::Currency)
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    pub minor: i64,
    pub currency: Currency,
}

impl Money {
    /// Reads an amount such as `1999.00`. Negative amounts are refused.
    pub fn parse(amount: &str, currency: &str) -> Result<Self, InvalidMoney> {
        let currency: Currency = currency.parse()?;
        let decimals = currency.decimals();
        let malformed = InvalidMoney::Amount(decimals);
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_written_well = !whole.is_empty() && !amount.ends_with('.') && fraction.len() <= decimals;
        if !is_written_well || !all_digits(whole) || !all_digits(fraction) {
            return Err(malformed);
        }
        let digits = format!("{whole}{fraction:0<decimals$}");
        let minor: i64 = digits.parse().map_err(|_| InvalidMoney::TooLarge)?;
        if minor > MAX_MINOR { Err(InvalidMoney::TooLarge) } else { Ok(Self { minor, currency }) }
    }

    /// The amount as the API writes it, such as `1999.00`.
    pub fn amount(&self) -> String {
        let decimals = self.currency.decimals();
        let digits = format!("{:0>width$}", self.minor, width = decimals + 1);
        if decimals == 0 {
            return digits;
        }
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        format!("{whole}.{fraction}")
    }

    pub const fn times(self, quantity: u32) -> Self {
        Self { minor: self.minor.saturating_mul(quantity as i64), currency: self.currency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_reads_back_as_written() {
        for (amount, currency, minor) in
            [("1999.00", "CNY", 199_900), ("0.01", "EUR", 1), ("500", "JPY", 500), ("1.234", "KWD", 1234)]
        {
            let money = Money::parse(amount, currency).unwrap();
            assert_eq!((money.minor, money.amount().as_str()), (minor, amount));
        }
        assert_eq!(Money::parse("5", "CNY").unwrap().amount(), "5.00");
        assert_eq!(Money::parse("5.5", "CNY").unwrap().times(3).amount(), "16.50");
    }

    #[test]
    fn text_that_is_not_an_amount_is_refused() {
        for amount in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.001", "1,00", " 1", "٣", "99999999999999999999"]
        {
            assert!(Money::parse(amount, "CNY").is_err(), "{amount}");
        }
    }

    #[test]
    fn only_currencies_in_use_are_accepted() {
        for currency in ["", "cny", "CNYX", "C1Y", "ABC", "XXX", "XTS", "XAU", "CHE", "DEM", "HRK", "ZWL"] {
            assert_eq!(Money::parse("1", currency), Err(InvalidMoney::Currency), "{currency}");
        }
        for currency in ["CNY", "EUR", "USD", "JPY", "KWD", "XOF", "ZWG"] {
            assert!(Money::parse("1", currency).is_ok(), "{currency}");
        }
    }

    #[test]
    fn a_currency_that_was_stored_stays_readable() {
        let currency = Currency::from_stored("ABC").unwrap();
        assert_eq!(Money { minor: 1999, currency }.amount(), "19.99");
        for damaged in ["", "abc", "ABCD", "A1C"] {
            assert!(Currency::from_stored(damaged).is_err(), "{damaged}");
        }
    }
}
