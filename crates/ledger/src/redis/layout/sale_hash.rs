//! A sale's hash in Redis, read outside the scripts. Its fields are text, so that people can read them too.

use std::str::FromStr;

use penstock_domain::{SaleId, SaleStatus, SaleTerms, Timestamp};
use redis::Value;

use super::codec::{Counts, Damaged, text, unpack_terms};

/// The fields to ask for with HMGET, in the order `SaleHash::read` expects.
pub(crate) const SALE_FIELDS: [&str; 17] = [
    "terms",
    "total",
    "available",
    "held",
    "paid",
    "paused",
    "closed",
    "position",
    "epoch",
    "orders",
    "first_hold",
    "due",
    "clock",
    "home",
    "forgotten",
    "closed_at",
    "waiting",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaleHash {
    pub(crate) terms: SaleTerms,
    pub(crate) counts: Counts,
    /// How many orders the sale has; also the next order's number.
    pub(crate) orders: u32,
    /// All holds before this number are over.
    pub(crate) first_hold: u32,
    /// The time of the last decision.
    pub(crate) clock: Timestamp,
    /// The replication id of the server that may decide the sale.
    pub(crate) home: String,
    /// When it was closed by hand.
    pub(crate) closed_at: Option<Timestamp>,
    /// How many buyers are on the waitlist.
    pub(crate) waiting: u32,
}

impl SaleHash {
    /// Reads a sale from the values of `SALE_FIELDS`; None if there is no such sale.
    pub(crate) fn read(sale: SaleId, values: &[Value]) -> Result<Option<Self>, Damaged> {
        let fields = Fields(values);
        let Some(terms) = fields.bytes(0)? else { return Ok(None) };
        let counts = Counts {
            total: fields.number(1)?,
            available: fields.number(2)?,
            held: fields.number(3)?,
            paid: fields.number(4)?,
            paused: fields.is_set(5)?,
            closed: fields.is_set(6)?,
            position: fields.number(7)?,
            epoch: fields.number(8)?,
            due: fields.moment(11)?,
            forgotten: fields.is_set(14)?,
        };
        Ok(Some(Self {
            terms: unpack_terms(sale, terms)?,
            counts,
            orders: fields.number(9)?,
            first_hold: fields.number(10)?,
            clock: Timestamp::from_millis(fields.number(12)?),
            home: fields.text(13)?.unwrap_or_default().into(),
            closed_at: fields.moment(15)?,
            // A sale that never had a waiter lacks this field.
            waiting: if fields.bytes(16)?.is_some() { fields.number(16)? } else { 0 },
        }))
    }

    pub(crate) fn status(&self) -> SaleStatus {
        self.counts.status(self.terms)
    }
}

struct Fields<'a>(&'a [Value]);

impl<'a> Fields<'a> {
    fn bytes(&self, place: usize) -> Result<Option<&'a [u8]>, Damaged> {
        match self.0.get(place) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => text(value).map(Some),
        }
    }

    fn text(&self, place: usize) -> Result<Option<&'a str>, Damaged> {
        let Some(bytes) = self.bytes(place)? else { return Ok(None) };
        std::str::from_utf8(bytes).map(Some).map_err(|_| Damaged("a field of a sale is not UTF-8"))
    }

    /// A field that every sale has.
    fn number<T: FromStr>(&self, place: usize) -> Result<T, Damaged> {
        let parsed = self.text(place)?.and_then(|text| text.parse().ok());
        parsed.ok_or(Damaged("a field of a sale is not a number"))
    }

    fn moment(&self, place: usize) -> Result<Option<Timestamp>, Damaged> {
        match self.text(place)? {
            None | Some("") => Ok(None),
            Some(_) => Ok(Some(Timestamp::from_millis(self.number(place)?))),
        }
    }

    fn is_set(&self, place: usize) -> Result<bool, Damaged> {
        Ok(self.text(place)? == Some("1"))
    }
}
