//! How often passwords may be tried. A device that has signed in to the account before has an allowance of its own; everybody else is
//! a stranger, limited by address, by account and address, and by account. So one who guesses can't lock the owner out, and all
//! strangers together can't guess for long. Each node counts by itself.

use penstock_domain::{AccountId, Timestamp};
use penstock_gate::{AddressKey, KeyedLimit, TooMany};

use crate::{identity::DeviceId, options::Options, passwords::Line, peer::Peer};

pub(crate) struct Attempts {
    by_device: KeyedLimit<Known>,
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
    /// Whoever is signed in.
    Account(AccountId),
}

enum By {
    Known(Known),
    Stranger { phone: String, address: Option<AddressKey> },
}

impl Attempts {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            by_device: KeyedLimit::new(options.sign_in_by_device),
            by_address: KeyedLimit::new(options.sign_in_by_address),
            by_phone_and_address: KeyedLimit::new(options.sign_in_by_phone_and_address),
            by_phone: KeyedLimit::new(options.sign_in_by_phone),
        }
    }

    pub(crate) fn begin(
        &self,
        phone: &str,
        device: Option<DeviceId>,
        Peer(address): Peer,
        now: Timestamp,
    ) -> Result<Attempt<'_>, TooMany> {
        if let Some(device) = device {
            return self.begin_known(Known::Device(device), now);
        }
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

    pub(crate) fn begin_signed_in(&self, account: AccountId, now: Timestamp) -> Result<Attempt<'_>, TooMany> {
        self.begin_known(Known::Account(account), now)
    }

    fn begin_known(&self, known: Known, now: Timestamp) -> Result<Attempt<'_>, TooMany> {
        self.by_device.check(&known, now)?;
        Ok(Attempt { attempts: self, by: By::Known(known) })
    }
}

impl Attempt<'_> {
    /// Where the password waits to be checked: known devices don't wait behind strangers of their address.
    pub(crate) fn line(&self) -> Line {
        match self.by {
            By::Known(Known::Device(device)) => Line::Device(device),
            By::Known(Known::Account(account)) => Line::Account(account),
            By::Stranger { address, .. } => Line::Address(address),
        }
    }

    /// It was no guess: the password was right, or was not looked at. The address' allowance stays used, because it is one for
    /// work.
    pub(crate) fn was_no_guess(self) {
        match self.by {
            By::Known(known) => self.attempts.by_device.give_back(&known),
            By::Stranger { phone, address } => {
                self.attempts.by_phone.give_back(&phone);
                self.attempts.by_phone_and_address.give_back(&(phone, address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc};

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const DAY_MINUTES: u32 = 24 * 60;

    fn attempts() -> Attempts {
        Attempts::new(&Options::new(Arc::new(|| START), [7; 32]))
    }

    /// How many wrong passwords are looked at in a day if each of the addresses tries one every minute.
    fn guesses_in_a_day(attempts: &Attempts, addresses: u32) -> usize {
        let tries = (0..DAY_MINUTES).flat_map(|minute| (1..=addresses).map(move |address| (minute, address)));
        tries
            .filter(|(minute, address)| {
                let address = Peer(Ipv4Addr::from_bits(0xcb00_7100 + address).into());
                attempts.begin("+8613800138000", None, address, START.plus_seconds(minute * 60)).is_ok()
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
        let address = Peer(Ipv4Addr::new(203, 0, 113, 9).into());
        for _ in 0..30 {
            attempts.begin("+8613800138000", None, address, START).unwrap().was_no_guess();
        }
        assert!(attempts.begin("+8613800138000", None, address, START).is_err(), "but they are work");
        for _ in 0..100 {
            attempts.begin_signed_in(AccountId::from_random(1), START).unwrap().was_no_guess();
        }
    }
}
