//! How often passwords may be tried. A device that has signed in to the account before has an allowance of its own, within one of all
//! such devices of the account; everybody else is a stranger, limited by address, by account and address, and by account. So one who
//! guesses can't lock the owner out, and all strangers together can't guess for long. Each node counts by itself.

use penstock_domain::Timestamp;
use penstock_gate::{AddressKey, KeyedLimit, TooMany};

use crate::{
    identity::{DeviceId, Session, SessionId},
    options::Options,
    passwords::Line,
    peer::Peer,
};

pub(crate) struct Attempts {
    by_device: KeyedLimit<Known>,
    /// Right passwords are work as well, and use it up.
    by_account: KeyedLimit<Line>,
    by_address: KeyedLimit<AddressKey>,
    by_phone_and_address: KeyedLimit<(String, Option<AddressKey>)>,
    by_phone: KeyedLimit<String>,
}

/// One try of a password that is within the limits.
pub(crate) struct Attempt<'a> {
    attempts: &'a Attempts,
    by: By,
}

/// Somebody who has given the right password before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Known {
    Device(DeviceId),
    /// Whoever is signed in. Each session by itself, so that a stolen one does not keep the owner from changing the password.
    Session(SessionId),
}

enum By {
    Known { known: Known, line: Line },
    Stranger { phone: String, address: Option<AddressKey> },
}

impl Attempts {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            by_device: KeyedLimit::new(options.sign_in_by_device),
            by_account: KeyedLimit::new(options.sign_in_by_account),
            by_address: KeyedLimit::new(options.sign_in_by_address),
            by_phone_and_address: KeyedLimit::new(options.sign_in_by_phone_and_address),
            by_phone: KeyedLimit::new(options.sign_in_by_phone),
        }
    }

    /// A known device that has used up what it has goes on as a stranger. That gives nothing to one who guesses, who could leave the
    /// cookie out, and lets the owner in whose devices were stolen.
    pub(crate) fn begin(
        &self,
        phone: &str,
        device: Option<DeviceId>,
        peer: Peer,
        now: Timestamp,
    ) -> Result<Attempt<'_>, TooMany> {
        let line = || Line::Phone(phone.to_owned());
        let known = device.and_then(|device| self.begin_known(Known::Device(device), line(), now).ok());
        known.map_or_else(|| self.begin_as_stranger(phone, peer, now), Ok)
    }

    fn begin_as_stranger(
        &self,
        phone: &str,
        Peer(address): Peer,
        now: Timestamp,
    ) -> Result<Attempt<'_>, TooMany> {
        let address = AddressKey::of(address);
        if let Some(address) = &address {
            self.by_address.check(address, now)?;
        }
        let pair = (phone.to_owned(), address);
        self.by_phone_and_address.check(&pair, now)?;
        let (phone, address) = pair;
        if let Err(too_many) = self.by_phone.check(&phone, now) {
            self.by_phone_and_address.give_back(&(phone, address));
            return Err(too_many);
        }
        Ok(Attempt { attempts: self, by: By::Stranger { phone, address } })
    }

    pub(crate) fn begin_signed_in(&self, session: &Session, now: Timestamp) -> Result<Attempt<'_>, TooMany> {
        self.begin_known(Known::Session(session.id), Line::Account(session.account), now)
    }

    fn begin_known(&self, known: Known, line: Line, now: Timestamp) -> Result<Attempt<'_>, TooMany> {
        self.by_device.check(&known, now)?;
        if let Err(too_many) = self.by_account.check(&line, now) {
            self.by_device.give_back(&known);
            return Err(too_many);
        }
        Ok(Attempt { attempts: self, by: By::Known { known, line } })
    }
}

impl Attempt<'_> {
    /// Where the password waits to be checked: known devices don't wait behind strangers of their address, but behind each other.
    pub(crate) fn line(&self) -> Line {
        match &self.by {
            By::Known { line, .. } => line.clone(),
            By::Stranger { address, .. } => Line::Address(*address),
        }
    }

    /// The device turns out not to be known any more. Its own allowance stays used, so that the look-up that told it is limited; that of
    /// the account is for devices that are known.
    pub(crate) fn go_on_as_stranger(self, phone: &str, peer: Peer, now: Timestamp) -> Result<Self, TooMany> {
        let By::Known { line, .. } = &self.by else { return Ok(self) };
        self.attempts.by_account.give_back(line);
        self.attempts.begin_as_stranger(phone, peer, now)
    }

    /// There was no work for the account. The address' allowance stays used: a client that is told `busy` has to come less often.
    pub(crate) fn was_not_looked_at(self) {
        if let By::Known { line, .. } = &self.by {
            self.attempts.by_account.give_back(line);
        }
        self.was_no_guess();
    }

    /// The allowances of the account and of the address stay used, because they are for work.
    pub(crate) fn was_right(self) {
        self.was_no_guess();
    }

    fn was_no_guess(self) {
        match self.by {
            By::Known { known, .. } => self.attempts.by_device.give_back(&known),
            By::Stranger { phone, address } => {
                self.attempts.by_phone.give_back(&phone);
                self.attempts.by_phone_and_address.give_back(&(phone, address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        sync::Arc,
    };

    use penstock_domain::AccountId;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const DAY_MINUTES: u32 = 24 * 60;
    const PHONE: &str = "+8613800138000";
    const STRANGER: Peer = Peer(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)));

    fn attempts() -> Attempts {
        Attempts::new(&Options::new(Arc::new(|| START), [7; 32]))
    }

    fn session_of(account: u64) -> Session {
        Session {
            account: AccountId::from_random(account),
            id: SessionId::random().unwrap(),
            issued_at: START,
            expires_at: START.plus_seconds(60),
            admin: false,
        }
    }

    /// How many wrong passwords are looked at in a day if each of the addresses tries one every minute.
    fn guesses_in_a_day(attempts: &Attempts, addresses: u32) -> usize {
        let tries = (0..DAY_MINUTES).flat_map(|minute| (1..=addresses).map(move |address| (minute, address)));
        tries
            .filter(|(minute, address)| {
                let address = Peer(Ipv4Addr::from_bits(0xcb00_7100 + address).into());
                attempts.begin(PHONE, None, address, START.plus_seconds(minute * 60)).is_ok()
            })
            .count()
    }

    #[test]
    fn strangers_guess_as_often_in_a_day_as_the_documentation_says() {
        let of_one = guesses_in_a_day(&attempts(), 1);
        assert!((150..=154).contains(&of_one), "{of_one}");
        let of_all = guesses_in_a_day(&attempts(), 250);
        assert!((1_485..=1_490).contains(&of_all), "{of_all}");
    }

    #[test]
    fn right_passwords_and_those_that_were_not_looked_at_are_no_guesses() {
        let attempts = attempts();
        for _ in 0..30 {
            attempts.begin(PHONE, None, STRANGER, START).unwrap().was_right();
        }
        assert!(attempts.begin(PHONE, None, STRANGER, START).is_err(), "but they are work");
        let session = session_of(1);
        for _ in 0..100 {
            attempts.begin_signed_in(&session, START).unwrap().was_not_looked_at();
        }
        for _ in 0..30 {
            attempts.begin_signed_in(&session, START).unwrap().was_right();
        }
        assert!(attempts.begin_signed_in(&session, START).is_err());
    }

    #[test]
    fn a_stolen_session_leaves_the_others_of_the_account_what_they_need() {
        let attempts = attempts();
        let (stolen, own) = (session_of(1), session_of(1));
        for minute in 0..DAY_MINUTES {
            let now = START.plus_seconds(minute * 60);
            while attempts.begin_signed_in(&stolen, now).is_ok() {}
            attempts.begin_signed_in(&own, now).expect("the owner's session").was_right();
        }
    }

    #[test]
    fn all_known_devices_of_an_account_wait_in_one_line_and_have_one_allowance_for_work() {
        let attempts = attempts();
        let begin = |device: Option<DeviceId>| attempts.begin(PHONE, device, STRANGER, START).unwrap();
        for _ in 0..30 {
            let attempt = begin(DeviceId::random().ok());
            assert_eq!(attempt.line(), Line::Phone(PHONE.to_owned()));
            attempt.was_right();
        }
        let next = begin(DeviceId::random().ok());
        assert_eq!(next.line(), begin(None).line(), "what is more than that is a stranger's");
        let somebody_else = attempts.begin("+8613800138001", DeviceId::random().ok(), STRANGER, START);
        assert_eq!(somebody_else.unwrap().line(), Line::Phone("+8613800138001".to_owned()));
    }

    #[test]
    fn a_stolen_device_leaves_the_others_of_the_account_what_they_need() {
        let attempts = attempts();
        let (stolen, own) = (DeviceId::random().ok(), DeviceId::random().ok());
        let is_known = |device, now| {
            let attempt = attempts.begin(PHONE, device, STRANGER, now);
            attempt.ok().filter(|attempt| matches!(attempt.by, By::Known { .. }))
        };
        let mut guesses = 0;
        for minute in 0..DAY_MINUTES {
            let now = START.plus_seconds(minute * 60);
            guesses += (0..20).filter(|_| is_known(stolen, now).is_some()).count();
            is_known(own, now).expect("its owner's other device").was_right();
        }
        assert!((2_885..=2_890).contains(&guesses), "{guesses}");
    }

    #[test]
    fn known_devices_together_guess_as_often_in_a_day_as_the_documentation_says() {
        let attempts = attempts();
        let devices: Vec<_> = (0..12).map(|_| DeviceId::random().unwrap()).collect();
        let tries = (0..DAY_MINUTES * 6).flat_map(|tick| devices.iter().map(move |device| (tick, device)));
        let guesses = tries.filter(|(tick, device)| {
            let now = START.plus_seconds(tick * 10);
            attempts.begin_known(Known::Device(**device), Line::Phone(PHONE.to_owned()), now).is_ok()
        });
        let guesses = guesses.count();
        assert!((4_345..=4_350).contains(&guesses), "{guesses}");
    }
}
