//! What every buyer of a run knows: the sale's rules, the crowd's habits, and their own identity.

use std::{fmt::Write as _, sync::Arc};

use crate::{scenario::Mix, token::TokenSigner};

/// A member of the crowd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Who {
    /// People and bots are numbered separately.
    pub(crate) number: u64,
    pub(crate) is_bot: bool,
}

/// What a buyer has to pass before ordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateSteps {
    pub challenge: bool,
    pub waiting_room: bool,
    pub pass_required: bool,
}

/// How buyers identify themselves.
#[derive(Clone, Debug)]
pub enum BuyerIdentity {
    /// With a shop's tokens, for subjects that begin with `prefix`.
    Jwt { signer: Arc<TokenSigner>, prefix: String },
    /// With a session for each buyer's account. Bots have none.
    Accounts(Arc<[BuyerAccount]>),
}

#[derive(Clone, Debug)]
pub struct BuyerAccount {
    pub phone: String,
    pub password: String,
}

#[derive(Debug)]
pub(super) struct CrowdTerms {
    pub(super) gate: GateSteps,
    pub(super) mix: Mix,
    pub(super) hold_seconds: f64,
    pub(super) burst_seconds: f64,
    pub(super) buyers: u64,
    pub(super) seed: u64,
    /// The common prefix of all keys of the run.
    pub(super) key_prefix: String,
    pub(super) identity: BuyerIdentity,
}

impl CrowdTerms {
    /// Whether `who` has to sign in first.
    pub(super) fn signs_in(&self, who: Who) -> bool {
        matches!(self.identity, BuyerIdentity::Accounts(_)) && !who.is_bot
    }

    /// Whether the server can accept any request of `who`.
    pub(super) fn is_known(&self, who: Who) -> bool {
        matches!(self.identity, BuyerIdentity::Jwt { .. }) || !who.is_bot
    }

    /// The token `who` comes with; empty if signing in has to provide it.
    pub(super) fn write_token(&self, who: Who, token: &mut String) {
        token.clear();
        let bot = if who.is_bot { "bot" } else { "" };
        match &self.identity {
            BuyerIdentity::Jwt { signer, prefix } => {
                signer.write(&[prefix, bot, itoa::Buffer::new().format(who.number)], token);
            }
            BuyerIdentity::Accounts(_) if who.is_bot => {
                let _ = write!(token, "forged-{}", who.number);
            }
            BuyerIdentity::Accounts(_) => {}
        }
    }

    pub(super) fn account(&self, who: Who) -> Option<&BuyerAccount> {
        let BuyerIdentity::Accounts(accounts) = &self.identity else { return None };
        let count = u64::try_from(accounts.len()).ok().filter(|count| *count > 0)?;
        accounts.get(usize::try_from(who.number % count).ok()?)
    }

    /// The number that `who` has in reports.
    pub(super) fn reported(&self, who: Who) -> u64 {
        if who.is_bot { self.buyers + who.number } else { who.number }
    }
}
