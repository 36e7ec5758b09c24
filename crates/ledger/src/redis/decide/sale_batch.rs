//! The commands of one batch for one sale: their form as arguments of the script `decide`, and its answers as
//! replies. It needs no connection.

use penstock_domain::{
    Accepted, BuyerId, CancelRefusal, Claim, ClaimRefusal, Command, JoinRefusal, KeyDigest, MAX_UNITS,
    MAX_WAITERS, Order, OrderId, OrderState, PaymentRefusal, Reply, SaleId, SaleRefusal, SaleTerms,
    Timestamp,
};
use penstock_redis_client::Script;
use redis::{Cmd, Value};

use crate::redis::layout::{
    Damaged, FoundSale, Keys, number, pack_terms, put_claim, text, unpack_counts, unpack_order, unpack_place,
    unpack_terms,
};

/// The script that decides. Its contract is at the top of its first file (head.lua).
pub(crate) fn decide_script() -> Script {
    Script::new(concat!(
        include_str!("../scripts/head.lua"),
        include_str!("../scripts/claim.lua"),
        include_str!("../scripts/wait.lua"),
        include_str!("../scripts/order.lua"),
        include_str!("../scripts/expire.lua"),
        include_str!("../scripts/sale.lua"),
        include_str!("../scripts/tail.lua"),
    ))
}

/// The kind of command that an answer belongs to.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Sale,
    Claim(usize),
    Confirm,
    Cancel,
    Find,
    OrdersOf,
    Expire,
    Join,
    Leave,
    Place,
}

/// Some commands for one sale. Without commands it reads the sale's status.
#[derive(Debug)]
pub(crate) struct SaleBatch {
    pub(crate) sale: SaleId,
    letters: Vec<u8>,
    asked: Vec<Asked>,
    claims: Vec<Claim>,
    /// Without gaps.
    packed_claims: Vec<u8>,
    /// For the commands about one order: its number and who asks.
    orders: Vec<(u32, Option<BuyerId>)>,
    arguments: Vec<Vec<u8>>,
}

/// A server's answer to a `SaleBatch`.
#[derive(Debug)]
pub(crate) enum SaleAnswer {
    /// The server is not the sale's home: nothing was done.
    Unhomed,
    Decided(SaleOutcome),
}

#[derive(Debug)]
pub(crate) struct SaleOutcome {
    /// The time at which it was decided.
    pub(crate) now: Timestamp,
    /// The sale after the batch; None if the ledger does not know it.
    pub(crate) sale: Option<FoundSale>,
    /// The sale's position before the batch.
    pub(crate) before: u64,
    /// In the order of the commands. If a command goes to several sales, this is the sale's part of the
    /// reply.
    pub(crate) replies: Vec<Reply>,
    /// The keys of the new orders.
    pub(crate) accepted: Vec<KeyDigest>,
}

impl SaleBatch {
    pub(crate) fn new(sale: SaleId) -> Self {
        Self {
            sale,
            letters: Vec::new(),
            asked: Vec::new(),
            claims: Vec::new(),
            packed_claims: Vec::new(),
            orders: Vec::new(),
            arguments: Vec::new(),
        }
    }

    pub(crate) fn of(sale: SaleId, command: Command) -> Self {
        let mut batch = Self::new(sale);
        batch.push(command);
        batch
    }

    pub(crate) fn push(&mut self, command: Command) {
        match command {
            Command::Publish(terms) => self.push_other(b'u', Asked::Sale, [pack_terms(&terms)]),
            Command::Restock { units, .. } => {
                let numbers = [units, MAX_UNITS].map(|number| number.to_string().into());
                self.push_other(b's', Asked::Sale, numbers);
            }
            Command::Pause(_) => self.push_other(b'z', Asked::Sale, []),
            Command::Resume(_) => self.push_other(b'w', Asked::Sale, []),
            Command::Close(_) => self.push_other(b'l', Asked::Sale, []),
            Command::Claim(claim) => self.push_claim(b'c', claim),
            Command::Recall(claim) => self.push_claim(b'r', claim),
            Command::ConfirmPayment { order, buyer } => self.push_order(b'p', Asked::Confirm, order, buyer),
            Command::Cancel { order, buyer } => self.push_order(b'x', Asked::Cancel, order, buyer),
            Command::FindOrder { order, buyer } => self.push_order(b'f', Asked::Find, order, buyer),
            Command::ExpireDue { max } => {
                self.push_other(b'e', Asked::Expire, [max.to_string().into()]);
            }
            Command::OrdersOf { buyer, max } => {
                let arguments = [buyer.as_str().into(), max.to_string().into()];
                self.push_other(b'o', Asked::OrdersOf, arguments);
            }
            Command::Join { buyer, quantity, .. } => {
                let [quantity, most] = [quantity, MAX_WAITERS].map(|number| number.to_string().into());
                let arguments = [buyer.as_str().into(), quantity, most];
                self.push_other(b'j', Asked::Join, arguments);
            }
            Command::Leave { buyer, .. } => self.push_other(b'd', Asked::Leave, [buyer.as_str().into()]),
            Command::FindPlace { buyer, .. } => self.push_other(b'q', Asked::Place, [buyer.as_str().into()]),
        }
    }

    fn push_claim(&mut self, letter: u8, claim: Claim) {
        self.letters.push(letter);
        self.asked.push(Asked::Claim(self.claims.len()));
        put_claim(&mut self.packed_claims, claim.key, claim.quantity);
        self.claims.push(claim);
    }

    fn push_order(&mut self, letter: u8, asked: Asked, order: OrderId, buyer: Option<BuyerId>) {
        self.letters.push(letter);
        self.asked.push(asked);
        self.orders.push((order.number, buyer));
    }

    fn push_other<const N: usize>(&mut self, letter: u8, asked: Asked, arguments: [Vec<u8>; N]) {
        self.letters.push(letter);
        self.asked.push(asked);
        self.arguments.extend(arguments);
    }

    /// The call of the script. `now` is None if the server's clock is to be used. `is_confirmed` says whether
    /// replicas have to confirm the answers.
    pub(crate) fn call(
        &self,
        script: &Script,
        keys: &Keys,
        now: Option<Timestamp>,
        mark: [u8; 16],
        is_confirmed: bool,
    ) -> Cmd {
        let mut call = script.call();
        let keys = keys.of_decide(self.sale);
        call.arg(keys.len()).arg(&keys);
        match now {
            Some(now) => call.arg(now.as_millis()),
            None => call.arg(""),
        };
        call.arg(&mark).arg(&self.letters).arg(self.claims.len()).arg(self.orders.len());
        call.arg(if is_confirmed { "1" } else { "" }).arg(&self.packed_claims);
        for claim in &self.claims {
            call.arg(claim.buyer.as_str());
        }
        for (number, _) in &self.orders {
            call.arg(number);
        }
        for (_, buyer) in &self.orders {
            call.arg(buyer.as_ref().map_or("", BuyerId::as_str));
        }
        call.arg(&self.arguments);
        call
    }

    /// Unpacks the script's answer.
    pub(crate) fn read(&self, answer: Value) -> Result<SaleAnswer, Damaged> {
        let Value::Array(parts) = answer else { return Err(Damaged("decide did not answer a list")) };
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let (is_decided, now) = (number(&next())? == 1, Timestamp::from_millis(number(&next())?));
        if !is_decided {
            return Ok(SaleAnswer::Unhomed);
        }
        let (terms, counts) = (next(), next());
        let before = u64::try_from(number(&next())?).map_err(|_| Damaged("a position below 0"))?;
        let sale = match text(&terms)? {
            [] => None,
            terms => Some(unpack_counts(unpack_terms(self.sale, terms)?, text(&counts)?)?),
        };
        let terms = sale.map(|known| known.status.terms);
        let mut accepted = Vec::new();
        let replies = self.asked.iter().map(|asked| self.reply(*asked, next(), terms, now, &mut accepted));
        let replies = replies.collect::<Result<_, _>>()?;
        Ok(SaleAnswer::Decided(SaleOutcome { now, sale, before, replies, accepted }))
    }

    fn reply(
        &self,
        asked: Asked,
        answer: Value,
        terms: Option<SaleTerms>,
        now: Timestamp,
        accepted: &mut Vec<KeyDigest>,
    ) -> Result<Reply, Damaged> {
        let id = |number| OrderId { sale: self.sale, number };
        let hold_seconds = terms.map_or(0, |terms| terms.hold_seconds);
        let order = |packed: &Value| Ok(unpack_order(self.sale, hold_seconds, text(packed)?)?.order);
        Ok(match (asked, answer) {
            (Asked::Sale, Value::Int(code)) => Reply::Sale(Err(refusal(code, SALE_REFUSALS)?)),
            (Asked::Sale, counts) => {
                let terms = terms.ok_or(Damaged("counts of an unknown sale"))?;
                Reply::Sale(Ok(unpack_counts(terms, text(&counts)?)?.status))
            }
            (Asked::Claim(place), Value::Int(code)) => match (self.claims.get(place), u32::try_from(code)) {
                (Some(claim), Ok(number)) => {
                    accepted.push(claim.key);
                    let order = new_order(id(number), claim, now, hold_seconds);
                    Reply::Verdict(Ok(Accepted { order, is_repeated: false }))
                }
                _ => Reply::Verdict(Err(refusal(code, CLAIM_REFUSALS)?)),
            },
            (Asked::Claim(_), first) => {
                let order =
                    Order { state: OrderState::Held, paid_at: None, refund_due: false, ..order(&first)? };
                Reply::Verdict(Ok(Accepted { order, is_repeated: true }))
            }
            (Asked::Confirm, Value::Int(code)) => Reply::Payment(Err(refusal(code, PAYMENT_REFUSALS)?)),
            (Asked::Confirm, packed) => Reply::Payment(Ok(order(&packed)?)),
            (Asked::Cancel, Value::Int(code)) => Reply::Cancelled(Err(refusal(code, CANCEL_REFUSALS)?)),
            (Asked::Cancel, packed) => Reply::Cancelled(Ok(order(&packed)?)),
            (Asked::Find, Value::Nil) => Reply::Found(None),
            (Asked::Find, packed) => Reply::Found(Some(order(&packed)?)),
            (Asked::Expire, released) => {
                let released = u32::try_from(number(&released)?);
                Reply::Expired(released.map_err(|_| Damaged("a number of holds below 0"))?)
            }
            (Asked::OrdersOf, Value::Array(orders)) => {
                Reply::Orders(orders.iter().map(order).collect::<Result<_, Damaged>>()?)
            }
            (Asked::OrdersOf, _) => return Err(Damaged("a buyer's orders are not a list")),
            (Asked::Join, Value::Int(code)) => Reply::Joined(Err(refusal(code, JOIN_REFUSALS)?)),
            (Asked::Join, place) => Reply::Joined(Ok(unpack_place(text(&place)?)?)),
            (Asked::Leave, was_on_it) => Reply::Left(number(&was_on_it)? == 1),
            (Asked::Place, Value::Nil) => Reply::Place(None),
            (Asked::Place, place) => Reply::Place(Some(unpack_place(text(&place)?)?)),
        })
    }
}

fn new_order(id: OrderId, claim: &Claim, now: Timestamp, hold_seconds: u32) -> Order {
    Order {
        id,
        buyer: claim.buyer.clone(),
        quantity: claim.quantity,
        state: OrderState::Held,
        created_at: now,
        pay_before: now.plus_seconds(hold_seconds),
        paid_at: None,
        refund_due: false,
    }
}

/// The refusal that a script's code stands for. The codes are those of head.lua.
fn refusal<R: Copy>(code: i64, known: &[(i64, R)]) -> Result<R, Damaged> {
    let found = known.iter().find(|(other, _)| *other == code);
    found.map(|(_, refusal)| *refusal).ok_or(Damaged("an unknown kind of refusal"))
}

const SALE_REFUSALS: &[(i64, SaleRefusal)] =
    &[(-1, SaleRefusal::UnknownSale), (-4, SaleRefusal::Closed), (-14, SaleRefusal::TooManyUnits)];

const CLAIM_REFUSALS: &[(i64, ClaimRefusal)] = &[
    (-1, ClaimRefusal::UnknownSale),
    (-2, ClaimRefusal::NotOpen),
    (-3, ClaimRefusal::Paused),
    (-4, ClaimRefusal::Closed),
    (-5, ClaimRefusal::LimitReached),
    (-6, ClaimRefusal::SoldOut),
    (-7, ClaimRefusal::KeyReused),
    (-8, ClaimRefusal::InvalidQuantity),
    (-9, ClaimRefusal::NotAccepted),
];

const JOIN_REFUSALS: &[(i64, JoinRefusal)] = &[
    (-1, JoinRefusal::UnknownSale),
    (-2, JoinRefusal::NotOpen),
    (-3, JoinRefusal::Paused),
    (-4, JoinRefusal::Closed),
    (-5, JoinRefusal::LimitReached),
    (-8, JoinRefusal::InvalidQuantity),
    (-15, JoinRefusal::NotSoldOut),
    (-16, JoinRefusal::WaitlistFull),
];

const PAYMENT_REFUSALS: &[(i64, PaymentRefusal)] = &[
    (-10, PaymentRefusal::UnknownOrder),
    (-11, PaymentRefusal::HoldExpired),
    (-12, PaymentRefusal::RefundDue),
];

const CANCEL_REFUSALS: &[(i64, CancelRefusal)] = &[
    (-10, CancelRefusal::UnknownOrder),
    (-11, CancelRefusal::HoldExpired),
    (-13, CancelRefusal::AlreadyPaid),
];
