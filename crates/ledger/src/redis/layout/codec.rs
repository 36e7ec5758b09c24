//! The packed forms of the ledger's data in Redis. Numbers are little-endian and of fixed size, so that the
//! scripts can unpack them with `struct.unpack`. The scripts write these forms too; a test compares both.

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

/// Takes bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Damaged("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn timestamp(&mut self) -> Result<Timestamp, Damaged> {
        Ok(Timestamp::from_millis(i64::from_le_bytes(self.array()?)))
    }

    fn key(&mut self) -> Result<KeyDigest, Damaged> {
        Ok(KeyDigest::from_words([self.u64()?, self.u64()?]))
    }

    fn buyer(&mut self) -> Result<BuyerId, Damaged> {
        let length = self.0.iter().position(|byte| *byte == END_OF_NAME);
        let name = self.take(length.ok_or(Damaged("a buyer's name does not end"))?)?;
        let _end = self.u8()?;
        let text = std::str::from_utf8(name).map_err(|_| Damaged("a buyer's name is not UTF-8"))?;
        Ok(BuyerId::from_stored(text))
    }

    fn end(&self) -> Result<(), Damaged> {
        if self.0.is_empty() { Ok(()) } else { Err(Damaged("it is too long")) }
    }
}

fn put_key(bytes: &mut Vec<u8>, key: KeyDigest) {
    key.words().iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

/// Units u32, limit u32, hold u32, flags u8, opens i64, closes i64. The sale's id is in the key.
pub(crate) fn pack_terms(terms: &SaleTerms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TERMS_BYTES);
    for number in [terms.units, terms.limit_per_buyer, terms.hold_seconds] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.push(flag(terms.opens_at.is_some(), OPENS) | flag(terms.closes_at.is_some(), CLOSES));
    for moment in [terms.opens_at, terms.closes_at] {
        bytes.extend_from_slice(&moment.map_or(0, Timestamp::as_millis).to_le_bytes());
    }
    bytes
}

pub(crate) fn unpack_terms(sale: SaleId, bytes: &[u8]) -> Result<SaleTerms, Damaged> {
    let mut reader = Reader(bytes);
    let terms = read_terms(sale, &mut reader)?;
    reader.end()?;
    Ok(terms)
}

fn read_terms(sale: SaleId, reader: &mut Reader<'_>) -> Result<SaleTerms, Damaged> {
    let (units, limit_per_buyer, hold_seconds) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let flags = reader.u8()?;
    let (opens_at, closes_at) = (reader.timestamp()?, reader.timestamp()?);
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

/// Everything about a sale that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: u32,
    pub(crate) available: u32,
    pub(crate) held: u32,
    pub(crate) paid: u32,
    pub(crate) paused: bool,
    pub(crate) closed: bool,
    /// The sale's orders, buyers and feed are gone from Redis.
    pub(crate) forgotten: bool,
    pub(crate) epoch: u32,
    /// The position of the last decision.
    pub(crate) position: u64,
    /// No hold of the sale is due before this moment; None if there is no hold.
    pub(crate) due: Option<Timestamp>,
}

impl Counts {
    pub(crate) fn version(&self) -> u64 {
        u64::from(self.epoch) << EPOCH_SHIFT | self.position
    }

    pub(crate) fn status(&self, terms: SaleTerms) -> SaleStatus {
        SaleStatus {
            terms,
            total: self.total,
            available: self.available,
            held: self.held,
            paid: self.paid,
            paused: self.paused,
            closed: self.closed,
            version: self.version(),
        }
    }
}

/// The position in a version, without its epoch.
pub(crate) fn position_of_version(version: u64) -> u64 {
    version & ((1 << EPOCH_SHIFT) - 1)
}

/// The epoch in a version.
pub(crate) fn epoch_of_version(version: u64) -> u64 {
    version >> EPOCH_SHIFT
}

pub(crate) fn pack_counts(counts: &Counts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(37);
    for number in [counts.total, counts.available, counts.held, counts.paid] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.push(flag(counts.paused, PAUSED) | flag(counts.closed, CLOSED) | flag(counts.forgotten, FORGOTTEN));
    bytes.extend_from_slice(&counts.epoch.to_le_bytes());
    bytes.extend_from_slice(&counts.position.to_le_bytes());
    bytes.extend_from_slice(&counts.due.map_or(-1, Timestamp::as_millis).to_le_bytes());
    bytes
}

pub(crate) fn unpack_counts(bytes: &[u8]) -> Result<Counts, Damaged> {
    let mut reader = Reader(bytes);
    let counts = read_counts(&mut reader)?;
    reader.end()?;
    Ok(counts)
}

fn read_counts(reader: &mut Reader<'_>) -> Result<Counts, Damaged> {
    let (total, available, held, paid) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    let flags = reader.u8()?;
    let (epoch, position, due) = (reader.u32()?, reader.u64()?, reader.timestamp()?);
    Ok(Counts {
        total,
        available,
        held,
        paid,
        paused: flags & PAUSED != 0,
        closed: flags & CLOSED != 0,
        forgotten: flags & FORGOTTEN != 0,
        epoch,
        position,
        due: (due.as_millis() >= 0).then_some(due),
    })
}

/// Key 16, quantity u32.
pub(crate) fn put_claim(bytes: &mut Vec<u8>, key: KeyDigest, quantity: u32) {
    put_key(bytes, key);
    bytes.extend_from_slice(&quantity.to_le_bytes());
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
    bytes.extend_from_slice(&order.id.number.to_le_bytes());
    bytes.push(match (order.state, order.refund_due) {
        (OrderState::Held, _) => 0,
        (OrderState::Paid, _) => 1,
        (OrderState::Expired, false) => 2,
        (OrderState::Cancelled, _) => 3,
        (OrderState::Expired, true) => 4,
    });
    bytes.extend_from_slice(&order.paid_at.map_or(0, Timestamp::as_millis).to_le_bytes());
    bytes.extend_from_slice(&order.created_at.as_millis().to_le_bytes());
    put_claim(bytes, *key, order.quantity);
}

/// Everything about an order except its buyer, whom the caller fills in.
fn read_record(sale: SaleId, hold_seconds: u32, reader: &mut Reader<'_>) -> Result<SnapshotOrder, Damaged> {
    let id = OrderId { sale, number: reader.u32()? };
    let (state, refund_due) = match reader.u8()? {
        0 => (OrderState::Held, false),
        1 => (OrderState::Paid, false),
        2 => (OrderState::Expired, false),
        3 => (OrderState::Cancelled, false),
        4 => (OrderState::Expired, true),
        _ => return Err(Damaged("an order's state is unknown")),
    };
    let (paid_at, created_at) = (reader.timestamp()?, reader.timestamp()?);
    let (key, quantity) = (reader.key()?, reader.u32()?);
    let paid_at = (state == OrderState::Paid).then_some(paid_at);
    let pay_before = created_at.plus_seconds(hold_seconds);
    let buyer = BuyerId::from_stored("");
    let order = Order { id, buyer, quantity, state, created_at, pay_before, paid_at, refund_due };
    Ok(SnapshotOrder { order, key })
}

/// An order as the scripts answer it: its record, then its buyer.
pub(crate) fn unpack_order(sale: SaleId, hold_seconds: u32, bytes: &[u8]) -> Result<SnapshotOrder, Damaged> {
    let mut reader = Reader(bytes);
    let SnapshotOrder { order, key } = read_record(sale, hold_seconds, &mut reader)?;
    let buyer = std::str::from_utf8(reader.0).map_err(|_| Damaged("a buyer's name is not UTF-8"))?;
    Ok(SnapshotOrder { order: Order { buyer: BuyerId::from_stored(buyer), ..order }, key })
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
    bytes.extend_from_slice(&waiter.number.to_le_bytes());
    bytes.extend_from_slice(&waiter.quantity.to_le_bytes());
    bytes.extend_from_slice(&waiter.joined_at.as_millis().to_le_bytes());
    bytes
}

/// The entry of `buyer` on the waitlist.
pub(crate) fn unpack_waiter(buyer: &[u8], entry: &[u8]) -> Result<Waiter, Damaged> {
    let buyer = std::str::from_utf8(buyer).map_err(|_| Damaged("a buyer's name is not UTF-8"))?;
    let mut reader = Reader(entry);
    let (number, quantity, joined_at) = (reader.u32()?, reader.u32()?, reader.timestamp()?);
    reader.end()?;
    Ok(Waiter { number, buyer: BuyerId::from_stored(buyer), quantity, joined_at })
}

/// A place as the scripts answer it: position u32, then quantity u32 and joined i64.
pub(crate) fn unpack_place(bytes: &[u8]) -> Result<Place, Damaged> {
    let mut reader = Reader(bytes);
    let (position, quantity, joined_at) = (reader.u32()?, reader.u32()?, reader.timestamp()?);
    reader.end()?;
    Ok(Place { position, quantity, joined_at })
}

/// The keys of all orders in a buyer's entry that the buyer claimed. Offers are left out.
pub(crate) fn keys_of_buyer(bytes: &[u8]) -> Result<Vec<KeyDigest>, Damaged> {
    let mut reader = Reader(bytes);
    let _units = reader.u32()?;
    let mut keys = Vec::new();
    while reader.end().is_err() {
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
    let mut reader = Reader(bytes);
    let (first, at, mut next_number) = (reader.u64()?, reader.timestamp()?, reader.u32()?);
    let mut decisions = Vec::with_capacity(last.saturating_sub(first) as usize + 1);
    let mut position = first;
    let mut push = |event| {
        decisions.push(Decision { position, at, event });
        position += 1;
    };
    while reader.end().is_err() {
        match reader.u8()? {
            b'H' => read_accepted(sale, &mut next_number, &mut reader, &mut push)?,
            letter => push(read_event(sale, letter, &mut reader)?),
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
    reader: &mut Reader<'_>,
    push: &mut impl FnMut(Event),
) -> Result<(), Damaged> {
    let count = reader.u32()? as usize;
    let size = count.checked_mul(CLAIM_BYTES).ok_or(Damaged("it is too short"))?;
    let mut claims = Reader(reader.take(size)?);
    for _ in 0..count {
        let (key, quantity, buyer) = (claims.key()?, claims.u32()?, reader.buyer()?);
        push(Event::Held { order: OrderId { sale, number: *next_number }, buyer, quantity, key });
        *next_number = next_number.wrapping_add(1);
    }
    Ok(())
}

fn read_event(sale: SaleId, letter: u8, reader: &mut Reader<'_>) -> Result<Event, Damaged> {
    let id = |number| OrderId { sale, number };
    Ok(match letter {
        b'U' => Event::Published(read_terms(sale, reader)?),
        b'S' => Event::Restocked { sale, units: reader.u32()? },
        b'Z' => Event::Paused(sale),
        b'W' => Event::Resumed(sale),
        b'X' => Event::Closed(sale),
        letter @ (b'P' | b'L') => {
            let (order, quantity) = (id(reader.u32()?), reader.u32()?);
            Event::Paid { order, quantity, after_expiry: letter == b'L' }
        }
        letter @ (b'E' | b'C') => {
            let (order, quantity) = (id(reader.u32()?), reader.u32()?);
            let reason = if letter == b'E' { ReleaseReason::Expired } else { ReleaseReason::Cancelled };
            Event::Released { order, quantity, reason }
        }
        b'R' => Event::RefundDue { order: id(reader.u32()?) },
        b'J' => {
            let (number, quantity) = (reader.u32()?, reader.u32()?);
            Event::Joined { sale, number, buyer: reader.buyer()?, quantity }
        }
        letter @ (b'D' | b'O' | b'N') => {
            let reason = match letter {
                b'D' => LeaveReason::Asked,
                b'O' => LeaveReason::Offered,
                _ => LeaveReason::LimitReached,
            };
            Event::Left { sale, number: reader.u32()?, buyer: reader.buyer()?, reason }
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
    pub(crate) terms: SaleTerms,
    pub(crate) counts: Counts,
    pub(crate) accepted: Vec<KeyDigest>,
}

pub(crate) fn pack_message(message: &NodeMessage) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96 + 16 * message.accepted.len());
    for number in [message.node, message.terms.sale.as_u64(), message.before] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&pack_terms(&message.terms));
    bytes.extend_from_slice(&pack_counts(&message.counts));
    message.accepted.iter().for_each(|key| put_key(&mut bytes, *key));
    bytes
}

pub(crate) fn unpack_message(bytes: &[u8]) -> Result<NodeMessage, Damaged> {
    let mut reader = Reader(bytes);
    let (node, sale, before) = (reader.u64()?, SaleId::from_random(reader.u64()?), reader.u64()?);
    let (terms, counts) = (read_terms(sale, &mut reader)?, read_counts(&mut reader)?);
    let mut accepted = Vec::new();
    while reader.end().is_err() {
        accepted.push(reader.key()?);
    }
    Ok(NodeMessage { node, before, terms, counts, accepted })
}

#[cfg(test)]
mod tests;
