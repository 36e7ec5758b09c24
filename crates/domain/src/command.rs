//! The commands a ledger takes, and its answers.

use crate::{Accepted, BuyerId, Claim, Order, OrderId, Place, SaleId, SaleStatus, SaleTerms};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Publish(SaleTerms),
    Restock {
        sale: SaleId,
        units: u32,
    },
    Pause(SaleId),
    Resume(SaleId),
    Close(SaleId),
    Claim(Claim),
    /// A question: how was this claim answered when it was accepted? Unlike `Claim` it never makes an order.
    Recall(Claim),
    /// A payment for an order was made. `buyer` is the buyer who reports it; None is a provider or an
    /// operator.
    ConfirmPayment {
        order: OrderId,
        buyer: Option<BuyerId>,
    },
    Cancel {
        order: OrderId,
        buyer: Option<BuyerId>,
    },
    /// Releases at most `max` holds that have run out.
    ExpireDue {
        max: u32,
    },
    /// A question. It changes nothing, but its answer waits until the decisions it rests on are durable, like
    /// any other answer.
    FindOrder {
        order: OrderId,
        buyer: Option<BuyerId>,
    },
    /// A buyer's newest orders over all sales, at most `max`.
    OrdersOf {
        buyer: BuyerId,
        max: u32,
    },
    /// Puts the buyer on the waitlist of a sale that is sold out. A buyer already on it keeps their place and
    /// quantity.
    Join {
        sale: SaleId,
        buyer: BuyerId,
        quantity: u32,
    },
    /// Takes the buyer off the waitlist, if they are on it.
    Leave {
        sale: SaleId,
        buyer: BuyerId,
    },
    /// A question: the buyer's place on the waitlist.
    FindPlace {
        sale: SaleId,
        buyer: BuyerId,
    },
}

impl Command {
    /// The sale that the command is about; None if it is about several.
    pub fn sale(&self) -> Option<SaleId> {
        match self {
            Self::Publish(terms) => Some(terms.sale),
            Self::Restock { sale, .. }
            | Self::Pause(sale)
            | Self::Resume(sale)
            | Self::Close(sale)
            | Self::Join { sale, .. }
            | Self::Leave { sale, .. }
            | Self::FindPlace { sale, .. } => Some(*sale),
            Self::Claim(claim) | Self::Recall(claim) => Some(claim.sale),
            Self::ConfirmPayment { order, .. }
            | Self::Cancel { order, .. }
            | Self::FindOrder { order, .. } => Some(order.sale),
            Self::ExpireDue { .. } | Self::OrdersOf { .. } => None,
        }
    }
}

/// The answer to a command, one variant per kind of command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To Publish, Restock, Pause, Resume and Close.
    Sale(Result<SaleStatus, SaleRefusal>),
    /// To Claim and Recall.
    Verdict(Result<Accepted, ClaimRefusal>),
    /// To ConfirmPayment.
    Payment(Result<Order, PaymentRefusal>),
    /// To Cancel.
    Cancelled(Result<Order, CancelRefusal>),
    /// To ExpireDue: how many holds were released.
    Expired(u32),
    /// To FindOrder.
    Found(Option<Order>),
    /// To OrdersOf, newest first.
    Orders(Vec<Order>),
    /// To Join.
    Joined(Result<Place, JoinRefusal>),
    /// To Leave: whether the buyer was on the list.
    Left(bool),
    /// To FindPlace. None also once the sale is closed, because nobody gets an offer then.
    Place(Option<Place>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaleRefusal {
    #[error("the ledger does not know this sale")]
    UnknownSale,
    #[error("the sale is closed")]
    Closed,
    #[error("the sale would have more units than a sale can have")]
    TooManyUnits,
    #[error("the sale's terms are out of bounds")]
    InvalidTerms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    #[error("the ledger does not know this sale")]
    UnknownSale,
    #[error("the sale has not opened yet")]
    NotOpen,
    #[error("the sale is paused")]
    Paused,
    #[error("the sale is closed")]
    Closed,
    #[error("the buyer would exceed the limit of the sale")]
    LimitReached,
    #[error("not enough units are left")]
    SoldOut,
    #[error("the idempotency key belongs to another claim")]
    KeyReused,
    #[error("the quantity is zero")]
    InvalidQuantity,
    /// Only in answer to Recall.
    #[error("no order was accepted with this key")]
    NotAccepted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaymentRefusal {
    #[error("no such order")]
    UnknownOrder,
    /// The buyer has cancelled: don't charge.
    #[error("the hold is over")]
    HoldExpired,
    /// The hold expired and no unit is left for it: any money charged has to go back.
    #[error("the payment has to be refunded")]
    RefundDue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelRefusal {
    #[error("no such order")]
    UnknownOrder,
    #[error("the order is paid")]
    AlreadyPaid,
    #[error("the hold has expired")]
    HoldExpired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    #[error("the ledger does not know this sale")]
    UnknownSale,
    #[error("the sale has not opened yet")]
    NotOpen,
    #[error("the sale is paused")]
    Paused,
    #[error("the sale is closed")]
    Closed,
    #[error("the buyer would exceed the limit of the sale")]
    LimitReached,
    /// There are units: claim them.
    #[error("the sale is not sold out")]
    NotSoldOut,
    #[error("the waitlist is full")]
    WaitlistFull,
    #[error("the quantity is zero")]
    InvalidQuantity,
}
