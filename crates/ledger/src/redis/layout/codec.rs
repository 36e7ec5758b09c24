//! The packed forms of the ledger's data in Redis. Numbers are little-endian and of fixed size, so that the
//! scripts can unpack them with `struct.unpack`. The scripts write these forms too; a test compares both.

use bytes::{Buf, BufMut, TryGetError};
use penstock_domain::{
    BuyerId, Decision, Event, KeyDigest, LeaveReason, Mark, Order, OrderId, OrderState, Place, ReleaseReason,
    SaleId, SaleStatus, SaleTerms, SnapshotOrder, Timestamp, Waiter,
};
use redis::Value;

/// Data in Redis that the ledger did not write, or that another version of it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Redis holds data that this ledger can't read: {0}")]
pub(crate) struct Damaged(pub(crate) &'static str);

impl From<Damaged> for crate::Unavailable {
    fn from(damaged: Damaged) -> Self {
        Self::new(damaged)
    }
}

pub(crate) fn number(value: &Value) -> Result<i64, Damaged> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(Damaged("a number was expected")),
    }
}

pub(crate) fn text(value: &Value) -> Result<&[u8], Damaged> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Damaged("a string was expected")),
    }
}

/// The upper bits of a version are the sale's epoch.
const EPOCH_SHIFT: u32 = 40;
const TERMS_BYTES: usize = 29;
const CLAIM_BYTES: usize = 20;
/// Names of buyers in a page.
pub(crate) const PAGE: usize = 64;
/// Ends a buyer's name. Names contain no control characters.
const END_OF_NAME: u8 = b'\n';
const OPENS: u8 = 1;
const CLOSES: u8 = 2;
const PAUSED: u8 = 1;
const CLOSED: u8 = 2;
const FORGOTTEN: u8 = 4;

impl From<TryGetError> for Damaged {
    fn from(_: TryGetError) -> Self {
        Self("it is too short")
    }
}

/// Reads a form that takes all the bytes.
fn whole<T>(mut bytes: &[u8], read: impl FnOnce(&mut &[u8]) -> Result<T, Damaged>) -> Result<T, Damaged> {
    let value = read(&mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(Damaged("it is too long")) }
}

fn read_timestamp(reader: &mut &[u8]) -> Result<Timestamp, Damaged> {
    Ok(Timestamp::from_millis(reader.try_get_i64_le()?))
}

fn read_key(reader: &mut &[u8]) -> Result<KeyDigest, Damaged> {
    Ok(KeyDigest::from_words([reader.try_get_u64_le()?, reader.try_get_u64_le()?]))
}

fn read_buyer(reader: &mut &[u8]) -> Result<BuyerId, Damaged> {
    let end = reader.iter().position(|byte| *byte == END_OF_NAME);
    let (name, rest) = reader.split_at(end.ok_or(Damaged("a buyer's name does not end"))?);
    *reader = &rest[1..];
    buyer(name)
}

fn buyer(name: &[u8]) -> Result<BuyerId, Damaged> {
    let name = std::str::from_utf8(name).map_err(|_| Damaged("a buyer's name is not UTF-8"))?;
    Ok(BuyerId::from_stored(name))
}

fn put_key(bytes: &mut Vec<u8>, key: KeyDigest) {
    key.words().into_iter().for_each(|word| bytes.put_u64_le(word));
}

fn put_moment(bytes: &mut Vec<u8>, moment: Option<Timestamp>, none: i64) {
    bytes.put_i64_le(moment.map_or(none, Timestamp::as_millis));
}

/// Units u32, limit u32, hold u32, flags u8, opens i64, closes i64. The sale's id is in the key.
pub(crate) fn pack_terms(terms: &SaleTerms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TERMS_BYTES);
    for number in [terms.units, terms.limit_per_buyer, terms.hold_seconds] {
        bytes.put_u32_le(number);
    }
    bytes.push(flag(terms.opens_at.is_some(), OPENS) | flag(terms.closes_at.is_some(), CLOSES));
    [terms.opens_at, terms.closes_at].into_iter().for_each(|moment| put_moment(&mut bytes, moment, 0));
    bytes
}

pub(crate) fn unpack_terms(sale: SaleId, bytes: &[u8]) -> Result<SaleTerms, Damaged> {
    whole(bytes, |reader| read_terms(sale, reader))
}

fn read_terms(sale: SaleId, reader: &mut &[u8]) -> Result<SaleTerms, Damaged> {
    let (units, limit_per_buyer, hold_seconds) =
        (reader.try_get_u32_le()?, reader.try_get_u32_le()?, reader.try_get_u32_le()?);
    let flags = reader.try_get_u8()?;
    let (opens_at, closes_at) = (read_timestamp(reader)?, read_timestamp(reader)?);
    Ok(SaleTerms {
        sale,
        units,
        limit_per_buyer,
        opens_at: (flags & OPENS != 0).then_some(opens_at),
        closes_at: (flags & CLOSES != 0).then_some(closes_at),
        hold_seconds,
    })
}

fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// A sale as Redis told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundSale {
    /// Its version has the epoch and the position of the last decision.
    pub(crate) status: SaleStatus,
    /// The sale's orders, buyers and feed are gone from Redis.
    pub(crate) forgotten: bool,
    /// No hold of the sale is due before this moment; None if there is no hold.
    pub(crate) due: Option<Timestamp>,
}

impl FoundSale {
    pub(crate) fn sale(&self) -> SaleId {
        self.status.terms.sale
    }

    pub(crate) fn epoch(&self) -> u64 {
        epoch_of_version(self.status.version)
    }

    pub(crate) fn position(&self) -> u64 {
        position_of_version(self.status.version)
    }
}

pub(crate) fn version_of(epoch: u32, position: u64) -> u64 {
    u64::from(epoch) << EPOCH_SHIFT | position
}

/// The position in a version, without its epoch.
pub(crate) fn position_of_version(version: u64) -> u64 {
    version & ((1 << EPOCH_SHIFT) - 1)
}

/// The epoch in a version.
pub(crate) fn epoch_of_version(version: u64) -> u64 {
    version >> EPOCH_SHIFT
}

/// Total u32, available u32, held u32, paid u32, flags u8, epoch u32, position i64, due i64.
pub(crate) fn pack_counts(known: &FoundSale) -> Vec<u8> {
    let FoundSale { status, forgotten, due } = known;
    let mut bytes = Vec::with_capacity(37);
    for number in [status.total, status.available, status.held, status.paid] {
        bytes.put_u32_le(number);
    }
    bytes.push(flag(status.paused, PAUSED) | flag(status.closed, CLOSED) | flag(*forgotten, FORGOTTEN));
    bytes.put_u32_le(known.epoch() as u32);
    bytes.put_u64_le(known.position());
    put_moment(&mut bytes, *due, -1);
    bytes
}

pub(crate) fn unpack_counts(terms: SaleTerms, bytes: &[u8]) -> Result<FoundSale, Damaged> {
    whole(bytes, |reader| read_counts(terms, reader))
}

fn read_counts(terms: SaleTerms, reader: &mut &[u8]) -> Result<FoundSale, Damaged> {
    let (total, available) = (reader.try_get_u32_le()?, reader.try_get_u32_le()?);
    let (held, paid) = (reader.try_get_u32_le()?, reader.try_get_u32_le()?);
    let flags = reader.try_get_u8()?;
    let version = version_of(reader.try_get_u32_le()?, reader.try_get_u64_le()?);
    let due = read_timestamp(reader)?;
    let (paused, closed) = (flags & PAUSED != 0, flags & CLOSED != 0);
    Ok(FoundSale {
        status: SaleStatus { terms, total, available, held, paid, paused, closed, version },
        forgotten: flags & FORGOTTEN != 0,
        due: (due.as_millis() >= 0).then_some(due),
    })
}

/// Key 16, quantity u32.
pub(crate) fn put_claim(bytes: &mut Vec<u8>, key: KeyDigest, quantity: u32) {
    put_key(bytes, key);
    bytes.put_u32_le(quantity);
}

/// The buyers of a page's orders, one after the other.
pub(crate) fn pack_names<'a>(buyers: impl Iterator<Item = &'a BuyerId>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for buyer in buyers {
        bytes.extend_from_slice(buyer.as_str().as_bytes());
        bytes.push(END_OF_NAME);
    }
    bytes
}

/// Number u32, state u8 (4: expired, and a refund is due), paid i64, created i64, then the claim.
fn put_record(bytes: &mut Vec<u8>, SnapshotOrder { order, key }: &SnapshotOrder) {
    bytes.put_u32_le(order.id.number);
    bytes.push(match (order.state, order.refund_due) {
        (OrderState::Held, _) => 0,
        (OrderState::Paid, _) => 1,
        (OrderState::Expired, false) => 2,
        (OrderState::Cancelled, _) => 3,
        (OrderState::Expired, true) => 4,
    });
    put_moment(bytes, order.paid_at, 0);
    put_moment(bytes, Some(order.created_at), 0);
    put_claim(bytes, *key, order.quantity);
}

/// Everything about an order except its buyer, whom the caller fills in.
fn read_record(sale: SaleId, hold_seconds: u32, reader: &mut &[u8]) -> Result<SnapshotOrder, Damaged> {
    let id = OrderId { sale, number: reader.try_get_u32_le()? };
    let (state, refund_due) = match reader.try_get_u8()? {
        0 => (OrderState::Held, false),
        1 => (OrderState::Paid, false),
        2 => (OrderState::Expired, false),
        3 => (OrderState::Cancelled, false),
        4 => (OrderState::Expired, true),
        _ => return Err(Damaged("an order's state is unknown")),
    };
    let (paid_at, created_at) = (read_timestamp(reader)?, read_timestamp(reader)?);
    let (key, quantity) = (read_key(reader)?, reader.try_get_u32_le()?);
    let paid_at = (state == OrderState::Paid).then_some(paid_at);
    let pay_before = created_at.plus_seconds(hold_seconds);
    let buyer = BuyerId::from_stored("");
    let order = Order { id, buyer, quantity, state, created_at, pay_before, paid_at, refund_due };
    Ok(SnapshotOrder { order, key })
}

/// An order as the scripts answer it: its record, then its buyer.
pub(crate) fn unpack_order(sale: SaleId, hold_seconds: u32, bytes: &[u8]) -> Result<SnapshotOrder, Damaged> {
    let mut reader = bytes;
    let SnapshotOrder { order, key } = read_record(sale, hold_seconds, &mut reader)?;
    Ok(SnapshotOrder { order: Order { buyer: buyer(reader)?, ..order }, key })
}

/// A buyer's entry: held and paid units u32, then the records of the buyer's orders in the order of their
/// numbers.
pub(crate) fn pack_buyer<'a>(units: u32, orders: impl Iterator<Item = &'a SnapshotOrder>) -> Vec<u8> {
    let mut bytes = units.to_le_bytes().to_vec();
    orders.for_each(|order| put_record(&mut bytes, order));
    bytes
}

/// A waiter's entry: number u32, quantity u32, joined i64.
pub(crate) fn pack_waiter(waiter: &Waiter) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    bytes.put_u32_le(waiter.number);
    bytes.put_u32_le(waiter.quantity);
    put_moment(&mut bytes, Some(waiter.joined_at), 0);
    bytes
}

/// The entry of `name` on the waitlist.
pub(crate) fn unpack_waiter(name: &[u8], entry: &[u8]) -> Result<Waiter, Damaged> {
    let Place { position: number, quantity, joined_at } = unpack_place(entry)?;
    Ok(Waiter { number, buyer: buyer(name)?, quantity, joined_at })
}

/// A place as the scripts answer it: position u32, then quantity u32 and joined i64.
pub(crate) fn unpack_place(bytes: &[u8]) -> Result<Place, Damaged> {
    whole(bytes, |reader| {
        let (position, quantity) = (reader.try_get_u32_le()?, reader.try_get_u32_le()?);
        Ok(Place { position, quantity, joined_at: read_timestamp(reader)? })
    })
}

/// The keys of all orders in a buyer's entry that the buyer claimed. Offers are left out.
pub(crate) fn keys_of_buyer(bytes: &[u8]) -> Result<Vec<KeyDigest>, Damaged> {
    let mut reader = bytes;
    let _units = reader.try_get_u32_le()?;
    let mut keys = Vec::new();
    while !reader.is_empty() {
        // The order's sale and the end of its hold do not matter here.
        keys.push(read_record(SaleId::from_random(0), 0, &mut reader)?.key);
    }
    keys.retain(|key| key.offered_to().is_none());
    Ok(keys)
}

/// One entry of a sale's feed: the decisions of one batch, and its mark. An entry without decisions only says
/// which history its position belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedEntry {
    /// The position of the first decision; `last + 1` if there is none.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) mark: Mark,
    pub(crate) decisions: Vec<Decision>,
}

/// First position i64, time i64, number of the first new order u32, then a letter and its parts for each
/// decision. Claims that were accepted in a row have one letter, their number u32, all claims and all names.
/// All decisions were made at one time, and their new orders are numbered without gaps.
pub(crate) fn unpack_entry(sale: SaleId, last: u64, mark: Mark, bytes: &[u8]) -> Result<FeedEntry, Damaged> {
    let reader = &mut &*bytes;
    let (first, at, mut next_number) =
        (reader.try_get_u64_le()?, read_timestamp(reader)?, reader.try_get_u32_le()?);
    let mut decisions = Vec::with_capacity(last.saturating_sub(first) as usize + 1);
    let mut position = first;
    let mut push = |event| {
        decisions.push(Decision { position, at, event });
        position += 1;
    };
    while !reader.is_empty() {
        match reader.try_get_u8()? {
            b'H' => read_accepted(sale, &mut next_number, reader, &mut push)?,
            letter => push(read_event(sale, letter, reader)?),
        }
    }
    if position != last.saturating_add(1) {
        return Err(Damaged("the length of an entry in the feed does not match its id"));
    }
    Ok(FeedEntry { first, last, mark, decisions })
}

fn read_accepted(
    sale: SaleId,
    next_number: &mut u32,
    reader: &mut &[u8],
    push: &mut impl FnMut(Event),
) -> Result<(), Damaged> {
    let count = reader.try_get_u32_le()? as usize;
    let size = count.checked_mul(CLAIM_BYTES).ok_or(Damaged("it is too short"))?;
    let mut claims = reader.split_off(..size).ok_or(Damaged("it is too short"))?;
    for _ in 0..count {
        let (key, quantity) = (read_key(&mut claims)?, claims.try_get_u32_le()?);
        let buyer = read_buyer(reader)?;
        push(Event::Held { order: OrderId { sale, number: *next_number }, buyer, quantity, key });
        *next_number = next_number.wrapping_add(1);
    }
    Ok(())
}

fn read_event(sale: SaleId, letter: u8, reader: &mut &[u8]) -> Result<Event, Damaged> {
    let id = |number| OrderId { sale, number };
    Ok(match letter {
        b'U' => Event::Published(read_terms(sale, reader)?),
        b'S' => Event::Restocked { sale, units: reader.try_get_u32_le()? },
        b'Z' => Event::Paused(sale),
        b'W' => Event::Resumed(sale),
        b'X' => Event::Closed(sale),
        letter @ (b'P' | b'L') => {
            let (order, quantity) = (id(reader.try_get_u32_le()?), reader.try_get_u32_le()?);
            Event::Paid { order, quantity, after_expiry: letter == b'L' }
        }
        letter @ (b'E' | b'C') => {
            let (order, quantity) = (id(reader.try_get_u32_le()?), reader.try_get_u32_le()?);
            let reason = if letter == b'E' { ReleaseReason::Expired } else { ReleaseReason::Cancelled };
            Event::Released { order, quantity, reason }
        }
        b'R' => Event::RefundDue { order: id(reader.try_get_u32_le()?) },
        b'J' => {
            let (number, quantity) = (reader.try_get_u32_le()?, reader.try_get_u32_le()?);
            Event::Joined { sale, number, buyer: read_buyer(reader)?, quantity }
        }
        letter @ (b'D' | b'O' | b'N') => {
            let reason = match letter {
                b'D' => LeaveReason::Asked,
                b'O' => LeaveReason::Offered,
                _ => LeaveReason::LimitReached,
            };
            Event::Left { sale, number: reader.try_get_u32_le()?, buyer: read_buyer(reader)?, reason }
        }
        _ => return Err(Damaged("an unknown kind of decision")),
    })
}

/// What a node tells the others after a batch: a sale as it is now, and the keys that the batch accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeMessage {
    /// The node that sends the message. It ignores its own messages.
    pub(crate) node: u64,
    /// The sale's position before the batch.
    pub(crate) before: u64,
    pub(crate) known: FoundSale,
    pub(crate) accepted: Vec<KeyDigest>,
}

pub(crate) fn pack_message(message: &NodeMessage) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96 + 16 * message.accepted.len());
    let numbers = [message.node, message.known.sale().as_u64(), message.before];
    numbers.into_iter().for_each(|number| bytes.put_u64_le(number));
    bytes.extend_from_slice(&pack_terms(&message.known.status.terms));
    bytes.extend_from_slice(&pack_counts(&message.known));
    message.accepted.iter().for_each(|key| put_key(&mut bytes, *key));
    bytes
}

pub(crate) fn unpack_message(bytes: &[u8]) -> Result<NodeMessage, Damaged> {
    let reader = &mut &*bytes;
    let (node, sale, before) =
        (reader.try_get_u64_le()?, SaleId::from_random(reader.try_get_u64_le()?), reader.try_get_u64_le()?);
    let terms = read_terms(sale, reader)?;
    let known = read_counts(terms, reader)?;
    let mut accepted = Vec::new();
    while !reader.is_empty() {
        accepted.push(read_key(reader)?);
    }
    Ok(NodeMessage { node, before, known, accepted })
}

#[cfg(test)]
mod tests;
