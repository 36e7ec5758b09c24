//! Sessions that were ended before they expired. They are few and short-lived, so every node holds all of
//! them in memory. The records keep them over a restart.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use parking_lot::RwLock;
use penstock_domain::{AccountId, Timestamp};

use super::session::{Session, SessionId};

/// The most that are held. Honest sign-outs never reach it.
const MAX_REVOKED: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Debug, Default)]
struct Revoked {
    /// Ended by signing out, with the moment at which they would expire.
    sessions: HashMap<SessionId, Timestamp>,
    /// Accounts whose password changed, and when. Earlier sessions are void.
    accounts: HashMap<AccountId, Timestamp>,
}

/// Most of the time there are none, and then no lock is taken.
const NONE: u8 = 0;
const SOME: u8 = 1;
/// They could not be loaded.
const UNKNOWN: u8 = 2;

/// Whether a session was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    No,
    Yes,
    /// It can't be told at the moment.
    Unknown,
}

#[derive(Debug, Default)]
pub struct Revocations {
    any: AtomicU8,
    revoked: RwLock<Revoked>,
}

impl Revocations {
    pub fn of(&self, session: &Session) -> Ended {
        match self.any.load(Relaxed) {
            NONE => return Ended::No,
            UNKNOWN => return Ended::Unknown,
            _ => {}
        }
        let revoked = self.revoked.read();
        let covered = revoked.sessions.contains_key(&session.id)
            || revoked.accounts.get(&session.account).is_some_and(|since| session.issued_at <= *since);
        if covered { Ended::Yes } else { Ended::No }
    }

    /// From now on, ended sessions can't be told from valid ones.
    pub fn are_unknown(&self) {
        self.any.store(UNKNOWN, Relaxed);
    }

    /// All ended sessions are loaded.
    pub fn are_known(&self) {
        // An error means that they were known all along.
        let _ = self.any.compare_exchange(UNKNOWN, SOME, Relaxed, Relaxed);
    }

    fn there_are_some(&self) {
        // An error means that there were some before, or that they are unknown.
        let _ = self.any.compare_exchange(NONE, SOME, Relaxed, Relaxed);
    }

    pub fn revoke_session(&self, id: SessionId, expires_at: Timestamp, now: Timestamp) -> Result<(), Full> {
        let mut revoked = self.revoked.write();
        if revoked.sessions.len() >= MAX_REVOKED {
            revoked.sessions.retain(|_, expires_at| *expires_at > now);
        }
        if revoked.sessions.len() >= MAX_REVOKED {
            return Err(Full);
        }
        revoked.sessions.insert(id, expires_at);
        self.there_are_some();
        Ok(())
    }

    /// Ends all sessions of an account that began at `now` or before. `horizon` is the latest moment at which
    /// a session that is still running can have begun.
    pub fn revoke_account(&self, account: AccountId, now: Timestamp, horizon: Timestamp) -> Result<(), Full> {
        let mut revoked = self.revoked.write();
        if revoked.accounts.len() >= MAX_REVOKED {
            revoked.accounts.retain(|_, since| *since > horizon);
        }
        if revoked.accounts.len() >= MAX_REVOKED {
            return Err(Full);
        }
        // They may arrive in any order.
        let since = revoked.accounts.entry(account).or_insert(now);
        *since = now.max(*since);
        self.there_are_some();
        Ok(())
    }
}
