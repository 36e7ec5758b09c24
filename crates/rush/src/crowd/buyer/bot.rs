//! What bots do where a person presses the button once. There are three ways of cheating, and bots take turns
//! at them. Up to the button, a bot does what a person does.

use super::{Buyer, BuyerCall, BuyerRole, BuyerState, Next, Scene, Who};

/// The attempts of a skipping bot, spread evenly over the ways of skipping the gate.
const SKIPS: u32 = 9;
const SKIPS_SECONDS: [f64; 2] = [0.1, 0.3];
const HAMMERS: std::ops::RangeInclusive<u32> = 20..=50;
/// Orders with one pass; the last few use another bot's name.
const REPLAYS: u32 = 12;
const REPLAYS_AS_ANOTHER: u32 = 2;
const MADE_UP_PASS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const MADE_UP_CHALLENGE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl BuyerRole {
    pub(super) fn of(who: Who) -> Self {
        match (who.is_bot, who.number % 3) {
            (false, _) => Self::Person,
            (true, 0) => Self::Skips,
            (true, 1) => Self::Hammers,
            (true, _) => Self::Replays,
        }
    }
}

impl Buyer {
    /// Whose token the current order is sent with.
    pub(super) fn who_orders(&self) -> Who {
        Who { number: self.who.number + u64::from(self.is_another()), ..self.who }
    }

    fn is_another(&self) -> bool {
        self.role == BuyerRole::Replays && (1..=REPLAYS_AS_ANOTHER).contains(&self.course.attempts)
    }

    /// The next attempt; the first call sets how many there will be.
    pub(super) fn attack(&mut self, scene: &mut Scene<'_>) -> Next {
        let left = match (self.course.attempts, self.role) {
            (0, BuyerRole::Person) => 0,
            (0, BuyerRole::Skips) => SKIPS,
            (0, BuyerRole::Hammers) => self.random.u32(HAMMERS),
            (0, BuyerRole::Replays) => REPLAYS,
            (attempts, _) => attempts - 1,
        };
        self.course.attempts = left;
        // A bot presses as soon as it can; its latency is not counted.
        self.due_at = scene.now;
        if left == 0 {
            return self.leave(scene);
        }
        self.new_order();
        match self.role {
            BuyerRole::Skips => self.skip(scene),
            BuyerRole::Replays => {
                if self.is_another() {
                    let another = self.who_orders();
                    scene.terms.write_token(another, &mut self.token);
                }
                self.begin(BuyerCall::Order, scene)
            }
            BuyerRole::Person | BuyerRole::Hammers => self.begin(BuyerCall::Order, scene),
        }
    }

    fn skip(&mut self, scene: &mut Scene<'_>) -> Next {
        self.pass.clear();
        match self.course.attempts % 3 {
            0 => self.begin(BuyerCall::Order, scene),
            1 => {
                self.pass.push_str(MADE_UP_PASS);
                self.begin(BuyerCall::Order, scene)
            }
            _ if scene.terms.gate.pass_required => {
                MADE_UP_CHALLENGE.clone_into(&mut self.challenge);
                self.answer = self.random.u64(..);
                self.begin(BuyerCall::Pass, scene)
            }
            _ => self.begin(BuyerCall::Order, scene),
        }
    }

    /// An attempt to order was answered, or never will be.
    pub(super) fn attempted(&mut self, scene: &mut Scene<'_>) -> Next {
        if self.course.in_doubt {
            self.doubt(scene);
        }
        let got_one = !self.order.is_empty();
        if got_one && self.random.bool() {
            return self.begin(BuyerCall::Pay, scene);
        }
        if got_one {
            let over_at = scene.now.plus_seconds(scene.terms.hold_seconds);
            scene.findings.expiring.push_back((over_at, scene.findings.quantity(self.course.promised)));
        }
        if self.role == BuyerRole::Skips {
            self.state = BuyerState::Attacking;
            return Next::Wait(scene.now.plus_seconds(self.between(SKIPS_SECONDS)));
        }
        self.attack(scene)
    }
}
