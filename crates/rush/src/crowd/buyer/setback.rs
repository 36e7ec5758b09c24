//! What a buyer does when a request was refused, when its turn or its patience is over, and when no answer
//! comes.

use super::{
    super::{Moment, answers::BuyerReply, codes::RefusalCode},
    Buyer, BuyerCall, BuyerRole, BuyerState, Next, PLACE_SECONDS, Scene,
};

/// How often a buyer hears "busy" or "too many requests" before giving up.
pub(super) const MAX_TRIES: u32 = 20;
/// How often a request without an answer is sent again.
pub(super) const MAX_BREAKS: u32 = 5;
/// The wait after a break; it doubles with each further break, because servers take time to restart.
const BREAK_SECONDS: f64 = 0.2;
/// How often a lost pass or turn is replaced.
pub(super) const MAX_RENEWALS: u32 = 2;
/// The wait when an answer does not name one.
const RETRY_SECONDS: f64 = 1.0;
/// The longest single wait, whatever the server asks for.
const MAX_RETRY_SECONDS: f64 = 60.0;
/// The wait when a sale is not open yet by the server's clock: it may open any moment.
const NOT_OPEN_SECONDS: [f64; 2] = [0.05, 2.0];

impl Buyer {
    /// Leaves without a yes or a no.
    pub(super) fn lose_patience(&mut self, scene: &mut Scene<'_>) -> Next {
        scene.findings.gave_up += u64::from(!self.who.is_bot);
        self.leave(scene)
    }

    /// Replaces a pass, turn or challenge that is no longer good, unless that has happened too often.
    pub(super) fn renew(&mut self, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        self.course.renewals += 1;
        if self.course.renewals > MAX_RENEWALS {
            return self.turned_away(scene);
        }
        self.pass.clear();
        if call == BuyerCall::Ticket {
            self.ticket.clear();
        }
        self.begin(call, scene)
    }

    pub(super) fn refused(&mut self, call: BuyerCall, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) -> Next {
        if call == BuyerCall::Look {
            // A buyer who can't see the page still buys.
            return self.prepare(scene);
        }
        if self.course.attempts > 0 && call == BuyerCall::Pass {
            return self.attempted(scene);
        }
        if reply.asks_for_patience() {
            let seconds = reply.retry_after_seconds.map_or(RETRY_SECONDS, f64::from).min(MAX_RETRY_SECONDS);
            let jitter_seconds = self.random.f64() * (seconds / 2.0).max(RETRY_SECONDS / 4.0);
            if matches!(call, BuyerCall::Pay | BuyerCall::Cancel) && self.course.tries >= MAX_TRIES {
                return self.settled_in_vain(reply, scene);
            }
            return self.try_again(call, scene.now.plus_seconds(seconds + jitter_seconds), scene);
        }
        match (reply.code, call) {
            (RefusalCode::REFUND_DUE | RefusalCode::HOLD_EXPIRED, BuyerCall::Pay | BuyerCall::Cancel) => {
                self.too_late(call, reply.code, scene)
            }
            (_, BuyerCall::Pay | BuyerCall::Cancel) => self.settled_in_vain(reply, scene),
            (RefusalCode::SOLD_OUT, _) => self.told_sold_out(scene),
            (RefusalCode::NOT_OPEN | RefusalCode::PAUSED, _) => {
                let [least, most] = NOT_OPEN_SECONDS;
                let seconds = (least * f64::from(1_u32 << self.course.tries.min(10))).min(most);
                let seconds = seconds * (0.5 + self.random.f64());
                self.try_again(call, scene.now.plus_seconds(seconds), scene)
            }
            (RefusalCode::PASSES_EXHAUSTED, BuyerCall::Pass) => {
                let at = scene.now.plus_seconds(self.between(PLACE_SECONDS));
                self.try_again(call, at, scene)
            }
            (RefusalCode::CHALLENGE_FAILED, BuyerCall::Pass) => self.renew(BuyerCall::Challenge, scene),
            (RefusalCode::NOT_ADMITTED, BuyerCall::Pass)
            | (RefusalCode::TICKET_NOT_FOUND, BuyerCall::Place) => self.renew(BuyerCall::Ticket, scene),
            (RefusalCode::PASS_INVALID | RefusalCode::PASS_REQUIRED, BuyerCall::Order)
                if scene.terms.gate.challenge =>
            {
                self.renew(BuyerCall::Challenge, scene)
            }
            (RefusalCode::PASS_INVALID | RefusalCode::PASS_REQUIRED, BuyerCall::Order) => {
                self.renew(BuyerCall::Pass, scene)
            }
            _ => self.turned_away(scene),
        }
    }

    /// After "busy", "too many requests" and the like.
    pub(super) fn try_again(&mut self, call: BuyerCall, at: Moment, scene: &mut Scene<'_>) -> Next {
        self.course.tries += 1;
        if self.course.tries > MAX_TRIES {
            return self.lose_patience(scene);
        }
        self.state = BuyerState::Asking(call);
        Next::Wait(at.max(scene.now))
    }

    pub(super) fn unanswered(&mut self, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        self.course.awaited = self.course.awaited.saturating_sub(1);
        self.course.in_doubt |= call == BuyerCall::Order && self.order.is_empty();
        if self.course.awaited > 0 {
            return Next::Listen;
        }
        if call == BuyerCall::Order && self.role != BuyerRole::Person {
            return self.attempted(scene);
        }
        if call == BuyerCall::Order && !self.order.is_empty() {
            return self.decide(scene);
        }
        self.course.breaks += 1;
        if self.course.breaks > MAX_BREAKS {
            // An order is counted among the doubtful ones when its buyer leaves.
            scene.findings.unanswered += u64::from(call != BuyerCall::Order);
            return match call {
                BuyerCall::Look => self.prepare(scene),
                BuyerCall::Pay | BuyerCall::Cancel => self.after_order(scene),
                _ => self.leave(scene),
            };
        }
        (self.state, self.course.keeps_due) = (BuyerState::Asking(call), true);
        let seconds =
            BREAK_SECONDS * f64::from(1_u32 << (self.course.breaks - 1)) * (0.5 + self.random.f64());
        Next::Wait(scene.now.plus_seconds(seconds))
    }

    /// The server is gone, and the run ends here.
    pub(in crate::crowd) fn abandon(&mut self, scene: &mut Scene<'_>) {
        scene.findings.unanswered += u64::from(!self.course.in_doubt);
        self.leave(scene);
    }

    pub(super) fn told_sold_out(&mut self, scene: &mut Scene<'_>) -> Next {
        self.first_answer(scene);
        if self.course.returns >= scene.terms.mix.comes_back {
            return self.leave(scene);
        }
        self.course.returns += 1;
        (self.course.tries, self.course.breaks, self.course.renewals) = (0, 0, 0);
        self.new_order();
        let seconds = scene.terms.mix.comes_back_after_seconds * (0.8 + 0.4 * self.random.f64());
        Next::Wait(scene.now.plus_seconds(seconds))
    }

    /// The order was refused for good.
    pub(super) fn turned_away(&mut self, scene: &mut Scene<'_>) -> Next {
        self.first_answer(scene);
        self.leave(scene)
    }
}
