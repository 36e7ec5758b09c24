//! How often passwords may be tried. A device that has signed in to the account before has its own allowance,
//! within one for all such devices of the account. Everybody else is a stranger, limited by address, by
//! account and address, and by account. So a stranger who guesses can't lock the owner out, and all strangers
//! together can't guess for long. Each node counts by itself.

use penstock_domain::Timestamp;
use penstock_gate::{AddressKey, KeyedLimit, TooMany};

use super::{
    device::DeviceId,
    options::IdentityOptions,
    passwords::PasswordLine,
    session::{Session, SessionId},
};
use crate::gate::Peer;

pub struct Attempts {
    by_device: KeyedLimit<KnownPerson>,
    /// Right passwords are work as well, and count too.
    by_account: KeyedLimit<PasswordLine>,
    by_address: KeyedLimit<AddressKey>,
    by_phone_and_address: KeyedLimit<(String, Option<AddressKey>)>,
    by_phone: KeyedLimit<String>,
}

/// One password attempt that is within the limits.
pub struct PasswordAttempt<'a> {
    attempts: &'a Attempts,
    by: By,
}

/// Somebody who has given the right password before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum KnownPerson {
    Device(DeviceId),
    /// A signed-in session. Each has its own allowance, so that a stolen one does not keep the owner from
    /// changing the password.
    Session(SessionId),
}

enum By {
    Known { known: KnownPerson, line: PasswordLine },
    Stranger { phone: String, address: Option<AddressKey> },
}

impl Attempts {
    pub fn new(options: &IdentityOptions) -> Self {
        Self {
            by_device: KeyedLimit::new(options.sign_in_by_device),
            by_account: KeyedLimit::new(options.sign_in_by_account),
            by_address: KeyedLimit::new(options.sign_in_by_address),
            by_phone_and_address: KeyedLimit::new(options.sign_in_by_phone_and_address),
            by_phone: KeyedLimit::new(options.sign_in_by_phone),
        }
    }

    /// A known device that has used up its allowance goes on as a stranger. This gains a guesser nothing, who
    /// could just leave out the cookie, and lets an owner in whose devices were stolen.
    pub fn begin(
        &self,
        phone: &str,
        device: Option<DeviceId>,
        peer: Peer,
        now: Timestamp,
    ) -> Result<PasswordAttempt<'_>, TooMany> {
        let line = || PasswordLine::Phone(phone.to_owned());
        let known = device.and_then(|device| self.begin_known(KnownPerson::Device(device), line(), now).ok());
        known.map_or_else(|| self.begin_as_stranger(phone, peer, now), Ok)
    }

    fn begin_as_stranger(
        &self,
        phone: &str,
        Peer(address): Peer,
        now: Timestamp,
    ) -> Result<PasswordAttempt<'_>, TooMany> {
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
        Ok(PasswordAttempt { attempts: self, by: By::Stranger { phone, address } })
    }

    pub fn begin_signed_in(&self, session: &Session, now: Timestamp) -> Result<PasswordAttempt<'_>, TooMany> {
        self.begin_known(KnownPerson::Session(session.id), PasswordLine::Account(session.account), now)
    }

    fn begin_known(
        &self,
        known: KnownPerson,
        line: PasswordLine,
        now: Timestamp,
    ) -> Result<PasswordAttempt<'_>, TooMany> {
        self.by_device.check(&known, now)?;
        if let Err(too_many) = self.by_account.check(&line, now) {
            self.by_device.give_back(&known);
            return Err(too_many);
        }
        Ok(PasswordAttempt { attempts: self, by: By::Known { known, line } })
    }
}

impl PasswordAttempt<'_> {
    /// The line in which the password waits to be checked. KnownPerson devices don't wait behind strangers from
    /// their address, but behind each other.
    pub fn line(&self) -> PasswordLine {
        match &self.by {
            By::Known { line, .. } => line.clone(),
            By::Stranger { address, .. } => PasswordLine::Address(*address),
        }
    }

    /// The device has turned out to be unknown. Its own allowance stays used, to limit the look-ups that find
    /// this out. The account's allowance is for known devices, and is given back.
    pub fn go_on_as_stranger(self, phone: &str, peer: Peer, now: Timestamp) -> Result<Self, TooMany> {
        let By::Known { line, .. } = &self.by else { return Ok(self) };
        self.attempts.by_account.give_back(line);
        self.attempts.begin_as_stranger(phone, peer, now)
    }

    /// The account caused no work. The address's allowance stays used: a client that is told `busy` has to
    /// come less often.
    pub fn was_not_looked_at(self) {
        if let By::Known { line, .. } = &self.by {
            self.attempts.by_account.give_back(line);
        }
        self.was_no_guess();
    }

    /// The allowances of the account and of the address stay used, because they are for work.
    pub fn was_right(self) {
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
    use std::net::{IpAddr, Ipv4Addr};

    use penstock_domain::AccountId;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const DAY_MINUTES: u32 = 24 * 60;
    const PHONE: &str = "+8613800138000";
    const STRANGER: Peer = Peer(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)));

    fn attempts() -> Attempts {
        Attempts::new(&IdentityOptions::default())
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

    /// How many wrong passwords are checked in a day if each of the addresses tries one every minute.
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
    fn right_and_unchecked_passwords_do_not_count_as_guesses() {
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
    fn a_stolen_session_does_not_use_up_the_allowance_of_the_owners_session() {
        let attempts = attempts();
        let (stolen, own) = (session_of(1), session_of(1));
        for minute in 0..DAY_MINUTES {
            let now = START.plus_seconds(minute * 60);
            while attempts.begin_signed_in(&stolen, now).is_ok() {}
            attempts.begin_signed_in(&own, now).expect("the owner's session").was_right();
        }
    }

    #[test]
    fn all_known_devices_of_an_account_share_one_line_and_one_allowance_for_work() {
        let attempts = attempts();
        let begin = |device: Option<DeviceId>| attempts.begin(PHONE, device, STRANGER, START).unwrap();
        for _ in 0..30 {
            let attempt = begin(DeviceId::random().ok());
            assert_eq!(attempt.line(), PasswordLine::Phone(PHONE.to_owned()));
            attempt.was_right();
        }
        let next = begin(DeviceId::random().ok());
        assert_eq!(next.line(), begin(None).line(), "beyond that it is a stranger's");
        let somebody_else = attempts.begin("+8613800138001", DeviceId::random().ok(), STRANGER, START);
        assert_eq!(somebody_else.unwrap().line(), PasswordLine::Phone("+8613800138001".to_owned()));
    }

    #[test]
    fn a_stolen_device_does_not_use_up_the_allowance_of_the_other_devices() {
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
            attempts
                .begin_known(KnownPerson::Device(**device), PasswordLine::Phone(PHONE.to_owned()), now)
                .is_ok()
        });
        let guesses = guesses.count();
        assert!((4_345..=4_350).contains(&guesses), "{guesses}");
    }
}
