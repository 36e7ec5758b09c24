//! How a request and a connection can end, and the kinds of calls whose latencies are measured together.

use penstock_domain::Accepted;

use crate::code::Code;

/// The outcome of a request. Every request has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// An order was accepted.
    Accepted,
    /// A claim that had been accepted was sent again, and got its first answer.
    Repeated,
    NotModified,
    /// The connection was gone before the answer.
    ClientGone,
    Refused(Code),
}

const PLAIN_OUTCOMES: [&str; 5] = ["ok", "accepted", "repeated", "not_modified", "client_gone"];
pub const OUTCOMES: usize = PLAIN_OUTCOMES.len() + Code::ALL.len();

impl Outcome {
    pub const fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Accepted => 1,
            Self::Repeated => 2,
            Self::NotModified => 3,
            Self::ClientGone => 4,
            Self::Refused(code) => PLAIN_OUTCOMES.len() + code as usize,
        }
    }

    pub const fn of_accepted(accepted: &Accepted) -> Self {
        if accepted.is_repeated { Self::Repeated } else { Self::Accepted }
    }

    pub fn name(index: usize) -> &'static str {
        PLAIN_OUTCOMES.get(index).copied().unwrap_or_else(|| Code::ALL[index - PLAIN_OUTCOMES.len()].as_str())
    }
}

/// How a connection ended. Every connection that was accepted ends in exactly one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The client ended it, or asked us to.
    Client,
    /// No request for a long time.
    Idle,
    /// No request for some time, and a newcomer needed the place.
    Displaced,
    /// The client did not read our answers, for too long or while the memory for unread answers was full.
    Unread,
    /// A request did not arrive in time.
    Slow,
    /// The client sent bytes that are not a request.
    Malformed,
    /// Its address has too many connections.
    Refused,
    /// The server is stopping.
    Drained,
    /// The server is stopping and could not wait any longer.
    Cut,
}

impl ConnectionEnd {
    pub const ALL: [Self; 9] = [
        Self::Client,
        Self::Idle,
        Self::Displaced,
        Self::Unread,
        Self::Slow,
        Self::Malformed,
        Self::Refused,
        Self::Drained,
        Self::Cut,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Idle => "idle",
            Self::Displaced => "displaced",
            Self::Unread => "unread",
            Self::Slow => "slow",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Drained => "drained",
            Self::Cut => "cut",
        }
    }
}

/// Calls whose latencies are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Claims that went to the ledger. Claims refused before that take microseconds and are not timed.
    Claim,
    Sales,
    Orders,
    Admin,
    Other,
}

impl Group {
    pub const ALL: [Self; 5] = [Self::Claim, Self::Sales, Self::Orders, Self::Admin, Self::Other];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Sales => "sales",
            Self::Orders => "orders",
            Self::Admin => "admin",
            Self::Other => "other",
        }
    }
}
