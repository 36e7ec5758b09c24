//! Sessions that were ended before their time. They are few and short-lived, so that every node can hold them
//! all in memory; the records keep them over a restart.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use penstock_domain::{AccountId, Timestamp};

use super::session::{Session, SessionId};

/// More are not held. Nobody reaches it by honest signing out.
const MAX_REVOKED: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug, Default)]
struct Revoked {
    /// Ended by signing out, with the moment at which they end anyway.
    sessions: HashMap<SessionId, Timestamp>,
    /// Accounts whose password changed, with the moment: sessions from before are void.
    accounts: HashMap<AccountId, Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Revocations {
    /// Most of the time there are none, and then nobody waits for the lock.
    any: AtomicBool,
    revoked: RwLock<Revoked>,
}

impl Revocations {
    pub(crate) fn cover(&self, session: &Session) -> bool {
        if !self.any.load(Relaxed) {
            return false;
        }
        let revoked = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        revoked.sessions.contains_key(&session.id)
            || revoked.accounts.get(&session.account).is_some_and(|since| session.issued_at <= *since)
    }

    pub(crate) fn revoke_session(
        &self,
        id: SessionId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Full> {
        let mut revoked = self.revoked.write().unwrap_or_else(PoisonError::into_inner);
        if revoked.sessions.len() >= MAX_REVOKED {
            revoked.sessions.retain(|_, expires_at| *expires_at > now);
        }
        if revoked.sessions.len() >= MAX_REVOKED {
            return Err(Full);
        }
        revoked.sessions.insert(id, expires_at);
        self.any.store(true, Relaxed);
        Ok(())
    }

    /// Ends all sessions of an account that began at `now` or before. `horizon` is the latest moment at which
    /// a session that is still running can have begun.
    pub(crate) fn revoke_account(
        &self,
        account: AccountId,
        now: Timestamp,
        horizon: Timestamp,
    ) -> Result<(), Full> {
        let mut revoked = self.revoked.write().unwrap_or_else(PoisonError::into_inner);
        if revoked.accounts.len() >= MAX_REVOKED {
            revoked.accounts.retain(|_, since| *since > horizon);
        }
        if revoked.accounts.len() >= MAX_REVOKED {
            return Err(Full);
        }
        revoked.accounts.insert(account, now);
        self.any.store(true, Relaxed);
        Ok(())
    }
}
