//! What a buyer does with the answer to an order, and with an accepted order.

use super::{
    super::{
        answers::{self, BuyerReply},
        codes::RefusalCode,
        findings::{Doubtful, End, Promised},
    },
    Buyer, BuyerCall, BuyerRole, Next, Scene,
};

/// How long after the end of the hold a late payer pays.
const LATE_SECONDS: [f64; 2] = [0.2, 1.0];
/// A margin for the end of a hold: moments are rounded, and clocks are set.
const HOLD_MARGIN_SECONDS: f64 = 2.0;

impl Buyer {
    pub(super) fn ordered(&mut self, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) -> Next {
        if reply.is_yes() {
            self.accept(reply, scene);
        } else if reply.leaves_doubt() {
            self.course.in_doubt = true;
        } else if !reply.asks_for_patience() {
            // Nothing sent under this key before was accepted.
            self.course.in_doubt = false;
            self.contradict(reply, scene);
        }
        if self.course.awaited > 0 {
            return Next::Listen;
        }
        match (self.order.is_empty(), self.role) {
            (false, BuyerRole::Person) => self.decide(scene),
            (true, BuyerRole::Person) => self.refused(BuyerCall::Order, reply, scene),
            _ => self.attempted(scene),
        }
    }

    /// A key that has an order must not be refused.
    fn contradict(&mut self, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) {
        // Of two presses at the opening, one may have come too early, and its answer may arrive later.
        if self.order.is_empty() || matches!(reply.code, RefusalCode::NOT_OPEN | RefusalCode::PAUSED) {
            return;
        }
        let (key, order, status) = (self.key(scene.terms), &self.order, reply.status);
        let contradiction =
            format!("The key {key} was answered with {order} and then refused with {status}.");
        scene.findings.contradictions.push(contradiction);
    }

    fn accept(&mut self, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) {
        let Some((id, quantity)) = answers::order(reply.body) else {
            self.course.in_doubt = true;
            return;
        };
        self.course.in_doubt = false;
        if self.order == id {
            return;
        }
        let key = self.key(scene.terms);
        if self.order.is_empty() {
            self.order = id.clone();
            self.course.promised = scene.findings.promised.len();
        } else {
            let contradiction = format!("The key {key} was answered with {} and with {id}.", self.order);
            scene.findings.contradictions.push(contradiction);
        }
        let (buyer, token) = (scene.terms.reported(self.who_orders()), self.token.clone());
        let promised = Promised { buyer, token, key, order: id, quantity, end: End::WalkedAway };
        let skips = matches!(self.role, BuyerRole::Skips | BuyerRole::Hammers);
        scene.findings.bots_served_by_skipping += u64::from(skips && !self.course.has_unit);
        scene.findings.promise(promised, self.who.is_bot, !self.course.has_unit);
        self.course.has_unit = true;
        self.first_answer(scene);
    }

    /// The buyer got a unit: pays, pays late, cancels or walks away.
    pub(super) fn decide(&mut self, scene: &mut Scene<'_>) -> Next {
        let terms = scene.terms;
        let mix = &terms.mix;
        let roll = self.random.f64();
        let thinks_seconds = self.between(mix.thinks_seconds);
        if roll < mix.pays {
            return self.ask_at(scene.now.plus_seconds(thinks_seconds), BuyerCall::Pay, scene);
        }
        if roll < mix.pays + mix.cancels {
            return self.ask_at(scene.now.plus_seconds(thinks_seconds), BuyerCall::Cancel, scene);
        }
        let over_at = scene.now.plus_seconds(scene.terms.hold_seconds);
        scene.findings.expiring.push_back((over_at, scene.findings.quantity(self.course.promised)));
        if roll < mix.pays + mix.cancels + mix.pays_late {
            self.course.pays_late = true;
            let late_seconds = self.between(LATE_SECONDS);
            return self.ask_at(over_at.plus_seconds(late_seconds), BuyerCall::Pay, scene);
        }
        self.leave(scene)
    }

    /// A payment or a cancellation succeeded.
    pub(super) fn settled(&mut self, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        let quantity = i64::from(scene.findings.quantity(self.course.promised));
        let end = match (call, self.course.pays_late) {
            (BuyerCall::Cancel, _) => {
                scene.findings.fresh.held -= quantity;
                End::Cancelled
            }
            (_, true) => {
                scene.findings.fresh.held += quantity;
                End::PaidLate
            }
            (_, false) => End::Paid,
        };
        scene.findings.set_end(self.course.promised, end);
        self.after_order(scene)
    }

    /// The order is finished.
    pub(super) fn after_order(&mut self, scene: &mut Scene<'_>) -> Next {
        match self.role {
            BuyerRole::Person => self.leave(scene),
            _ => self.attack(scene),
        }
    }

    /// Whether the hold lasts for certain, by the server's clock, too.
    fn is_surely_held(&self, scene: &Scene<'_>) -> bool {
        let lasts_seconds = scene.terms.hold_seconds - HOLD_MARGIN_SECONDS;
        !self.course.pays_late && scene.now < self.course.key_since.plus_seconds(lasts_seconds)
    }

    /// A payment or a cancellation was refused for good, or too often to try again.
    pub(super) fn settled_in_vain(&mut self, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) -> Next {
        if reply.status >= 500 {
            // It may have succeeded, so the end is unknown.
            scene.findings.unanswered += 1;
        } else {
            scene.findings.set_end(self.course.promised, End::Refused);
        }
        self.after_order(scene)
    }

    pub(super) fn too_late(&mut self, call: BuyerCall, code: RefusalCode, scene: &mut Scene<'_>) -> Next {
        let end = match (code, call) {
            _ if self.is_surely_held(scene) => End::Refused,
            (RefusalCode::REFUND_DUE, _) => End::Refund,
            // The hold expired before it could be cancelled.
            (_, BuyerCall::Cancel) => End::WalkedAway,
            _ => End::Unknown,
        };
        scene.findings.set_end(self.course.promised, end);
        if !self.course.pays_late {
            scene.findings.fresh.held -= i64::from(scene.findings.quantity(self.course.promised));
        }
        self.after_order(scene)
    }

    pub(super) fn doubt(&mut self, scene: &mut Scene<'_>) {
        self.course.in_doubt = false;
        // A buyer whose token is forged gets nothing accepted.
        if scene.terms.is_known(self.who) {
            let (buyer, token) = (scene.terms.reported(self.who_orders()), self.token.clone());
            scene.findings.doubtful.push(Doubtful { buyer, token, key: self.key(scene.terms) });
        }
    }
}
