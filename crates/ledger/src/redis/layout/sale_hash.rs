//! A sale's hash in Redis, read outside the scripts. Its fields are text, so that people can read them too.

use penstock_domain::{SaleId, SaleStatus, Timestamp};
use redis::{FromRedisValue, Value};

use super::codec::{Damaged, FoundSale, unpack_terms, version_of};

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
    pub(crate) known: FoundSale,
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
        let Some(terms) = field::<Option<Vec<u8>>>(values, 0)? else { return Ok(None) };
        let status = SaleStatus {
            terms: unpack_terms(sale, &terms)?,
            total: field(values, 1)?,
            available: field(values, 2)?,
            held: field(values, 3)?,
            paid: field(values, 4)?,
            paused: is_set(values, 5)?,
            closed: is_set(values, 6)?,
            version: version_of(field(values, 8)?, field(values, 7)?),
        };
        Ok(Some(Self {
            known: FoundSale { status, forgotten: is_set(values, 14)?, due: moment(values, 11)? },
            orders: field(values, 9)?,
            first_hold: field(values, 10)?,
            clock: Timestamp::from_millis(field(values, 12)?),
            home: field::<Option<String>>(values, 13)?.unwrap_or_default(),
            closed_at: moment(values, 15)?,
            // A sale that never had a waiter lacks this field.
            waiting: field::<Option<u32>>(values, 16)?.unwrap_or(0),
        }))
    }
}

fn field<T: FromRedisValue>(values: &[Value], place: usize) -> Result<T, Damaged> {
    let value = values.get(place).unwrap_or(&Value::Nil);
    T::from_redis_value_ref(value).map_err(|_| Damaged("a field of a sale can't be read"))
}

fn is_set(values: &[Value], place: usize) -> Result<bool, Damaged> {
    Ok(field::<Option<String>>(values, place)?.as_deref() == Some("1"))
}

fn moment(values: &[Value], place: usize) -> Result<Option<Timestamp>, Damaged> {
    match field::<Option<String>>(values, place)?.as_deref() {
        None | Some("") => Ok(None),
        Some(_) => Ok(Some(Timestamp::from_millis(field(values, place)?))),
    }
}
